"""Options of the whole suite, and what all of it stands on."""

import signal

import pytest

# A shell has its background jobs ignore Ctrl-C, and every process inherits that: tests that interrupt one need it back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the protocol scripts say now into their files")
