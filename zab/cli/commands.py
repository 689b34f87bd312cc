"""The table of commands: the name of each, the place of its code, and its one line of help.

    "get": Command("znodes.znode:get_command", "Print a znode's data."),

The place is a function with typer's options, or a Typer that has commands of its own. Its module is imported when the
command is called, so that `zab --help` loads none of them. The docstring of the function, if it has one, follows the
one line in its `--help`.

The shell has the commands of `zab.cli.znodes`, too, except those in NOT_IN_SHELL.
"""

import importlib
import inspect
from typing import Any, Final

import typer
from attrs import frozen

from zab.cli.data_command import DataCommand
from zab.cli.exits import library_of
from zab.cli.time_limit import timed

__all__ = ["ALIASES", "COMMANDS", "NOT_IN_SHELL", "PUBLICATION", "TAKES_DATA", "Command", "MissingExtraError"]

_FILES: Final = "Servers and files"
_PANELS: Final = {
    "znodes": "Znodes",
    "brokers": "Brokers and topics",
    "bookies": "Ledgers",
    "ledger": "Ledgers",
    **dict.fromkeys(("servers", "files", "pipeline", "operations", ""), _FILES),
}
"""The panel of `zab --help` for the commands of each package."""


class MissingExtraError(Exception):
    """A command that needs an extra which is not installed; the text says what to install."""


@frozen
class Command:
    """`place` is PACKAGE.MODULE:ATTRIBUTE below `zab.cli`, or MODULE:ATTRIBUTE directly in it."""

    place: str
    summary: str
    extra: str = ""
    """The extra without which its module cannot be imported, if there is one."""

    @property
    def room(self) -> str:
        return self.place.partition(":")[0].rpartition(".")[0]

    @property
    def panel(self) -> str:
        return _PANELS[self.room]

    def load(self) -> Any:
        """The function or the Typer; imports its module. Raises MissingExtraError."""
        module, _, attribute = self.place.partition(":")
        try:
            return getattr(importlib.import_module(f"zab.cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            library = library_of(error)
            if not self.extra or library in ("", "zab"):
                raise
            raise MissingExtraError(f"the command needs {library}: pip install 'zab[{self.extra}]'") from None

    def add_to(self, app: typer.Typer, name: str) -> None:
        """Load it, and make it a command of `app`."""
        loaded = self.load()
        # The shell has no time of its own; its lines have. A broker runs until it is told to end.
        is_timed = self.room in ("znodes", "brokers", "ledger") and name not in ("shell", "broker")
        if isinstance(loaded, typer.Typer):
            for each in loaded.registered_commands if is_timed else ():
                assert each.callback is not None
                each.callback = timed(each.callback)
            app.add_typer(loaded, name=name, help=self.summary, rich_help_panel=self.panel)
        else:
            text = f"{self.summary}\n\n{inspect.getdoc(loaded) or ''}"
            kind = DataCommand if name in TAKES_DATA else None
            function = timed(loaded) if is_timed else loaded
            app.command(name, cls=kind, help=text, rich_help_panel=self.panel)(function)

    def announce_in(self, app: typer.Typer, name: str) -> None:
        """Show it in the help of `app`, without its code."""
        app.command(name, help=self.summary, rich_help_panel=self.panel)(_not_loaded)


def _not_loaded() -> None:
    raise AssertionError("a command that is called is loaded first")


COMMANDS: Final = {
    "create": Command("znodes.znode:create_command", "Create a znode."),
    "get": Command("znodes.znode:get_command", "Print a znode's data."),
    "set": Command("znodes.znode:set_command", "Change a znode's data."),
    "delete": Command("znodes.znode:delete_command", "Delete a znode, or a whole subtree."),
    "ls": Command("znodes.znode:ls_command", "List a znode's children."),
    "stat": Command("znodes.znode:stat_command", "Print a znode's stat."),
    "watch": Command("znodes.znode:watch_command", "Print changes as they happen, until Ctrl-C."),
    "changes": Command("znodes.changes:changes_command", "Print every change of the tree in order, until Ctrl-C."),
    "acl": Command("znodes.acl:acl_app", "Show and change the ACL of a znode."),
    "quota": Command("znodes.quota:quota_app", "Show and change the quotas of subtrees."),
    "count": Command("znodes.znode:count_command", "Print how many descendants a znode has."),
    "tree": Command("znodes.tree:tree_command", "Draw a subtree."),
    "find": Command("znodes.find:find_command", "Print the paths of znodes that pass tests."),
    "du": Command("znodes.tree:du_command", "Print the bytes and znodes of each directory."),
    "touch": Command("znodes.copying:touch_command", "Change the time of a znode's data, or create it."),
    "cp": Command("znodes.copying:cp_command", "Copy a subtree."),
    "mv": Command("znodes.copying:mv_command", "Move a subtree."),
    "export": Command("znodes.exporting:export_command", "Print a subtree in a form that zab import reads."),
    "import": Command("znodes.importing:import_command", "Create a subtree from the output of zab export."),
    "edit": Command("znodes.editing:edit_command", "Change a znode's data in an editor."),
    "multi": Command("znodes.multi:multi_command", "Run the lines of a file as one transaction."),
    "wait": Command("znodes.waiting:wait_command", "Wait until a znode exists, is deleted, or has changed."),
    "lock": Command("znodes.locking:lock_command", "Run a command while a lock is held."),
    "elect": Command("znodes.locking:elect_command", "Run a command while this candidate leads."),
    "ephemerals": Command("znodes.session:ephemerals_command", "List this session's ephemerals."),
    "sync": Command(
        "znodes.session:sync_command", "Wait until the server has applied every write acknowledged before."
    ),
    "whoami": Command("znodes.session:whoami_command", "Print the identities that the server knows for this client."),
    "config": Command("znodes.session:config_command", "Print the ensemble's configuration."),
    "4lw": Command("znodes.words:word_command", "Print what each server says about itself: srvr, mntr, cons, …"),
    "reconfig": Command("znodes.reconfig:reconfig_app", "Show and change the members of the ensemble."),
    "lead": Command("znodes.reconfig:lead_command", "Hand over leadership to another server."),
    "shell": Command("znodes.shell:shell_command", "Run commands one after the other in one session."),
    "status": Command("operations.status:status_command", "Print the leader, lags, and what needs attention."),
    "doctor": Command("operations.doctor:doctor_command", "Check a member's configuration, machine and neighbours."),
    "backup": Command(
        "operations.backup:backup_app", "Back up a running ensemble, and list, verify and prune backups."
    ),
    "support": Command("operations.support:support_command", "Pack diagnostics for support, without secrets."),
    "server": Command("servers.server:server_command", "Run one member, until SIGINT or SIGTERM."),
    "ensemble": Command(
        "servers.server:ensemble_command", "Run a local ensemble, one process per member, until SIGINT or SIGTERM."
    ),
    "broker": Command(
        "brokers.broker:broker_app", "Run a broker, which Kafka's clients produce to and consume from, and list them."
    ),
    "bookie": Command(
        "bookies.bookie:bookie_app", "Run a bookie, which stores ledgers for clients of BookKeeper.", "ledgers"
    ),
    "topic": Command("brokers.topics:topic_app", "Create, list, describe, alter and delete topics."),
    "produce": Command("brokers.produce:produce_command", "Append lines to a topic."),
    "consume": Command("brokers.consume:consume_command", "Print the records of a topic."),
    "group": Command("brokers.groups:group_app", "List, describe, reset and delete groups of consumers."),
    "ledger": Command(
        "ledger.ledgers:ledger_app", "Create, append to, read, recover, check and delete ledgers.", "ledgers"
    ),
    "ledger-log": Command(
        "ledger.logs:ledger_log_app", "Create, append to, read, trim and delete managed ledgers.", "ledgers"
    ),
    "audit": Command("ledger.audit:audit_app", "Show auto-recovery of ledgers, and switch it.", "ledgers"),
    "service": Command("servers.service:service_app", "Run a member as a service of systemd."),
    "secret": Command("servers.secret:secret_command", "Make the secret that authenticates members to each other."),
    "certs": Command(
        "servers.certs:certs_command", "Make certificates for members and clients, and their authorities."
    ),
    "user": Command("servers.user:user_command", "Manage the users who may log in by SASL."),
    "snapshot": Command("files.inspect:snapshot_command", "Print the contents of a snapshot, native or ZooKeeper's."),
    "log": Command("files.inspect:log_command", "Print the transactions of a log, native or ZooKeeper's."),
    "segment": Command(
        "files.segment:segment_command", "Print the files of a broker's log directory, ours or Kafka's."
    ),
    "fsck": Command("files.fsck:fsck_command", "Report damage in the files of a stopped member, and what will happen."),
    "restore": Command(
        "operations.restore:restore_command",
        "Restore any moment of the backups: to new directories or to running members.",
    ),
    "recover": Command(
        "files.recover:recover_command",
        "Begin a new ensemble from one stopped member, after a majority lost its data.",
    ),
    "pipeline": Command(
        "pipeline.commands:pipeline_app", "Analyse logs and snapshots with Spark, native and ZooKeeper's."
    ),
    "simulate": Command(
        "servers.simulate:simulate_command",
        "Run whole ensembles in simulated time, with faults, and check every guarantee.",
    ),
    "explore": Command(
        "servers.explore:explore_command", "Explore every order of events in a small ensemble, and check each."
    ),
    "completion": Command(
        "completion:completion_command", "Print the shell code that completes commands, options and paths."
    ),
}

PUBLICATION: Final = Command("brokers.change_feed:Publication", "Publish changes in a topic.")
"""What `zab changes --to-topic` loads: the only part of a command of znodes that needs brokers."""

CHANGE_LOG: Final = Command("ledger.change_log:ChangeLog", "Keep changes in a log.", "ledgers")
"""What `zab changes --to-log` and `--from-log` load."""

BOOKIE_DOCTOR: Final = Command("operations.bookie_doctor:examine", "Look at a bookie.", "ledgers")
"""What `zab doctor` loads for the file of a bookie."""

ALIASES: Final = {
    "deleteall": ["delete", "--recursive"],
    "rmr": ["delete", "--recursive"],
    "getAcl": ["acl", "get"],
    "setAcl": ["acl", "set"],
    "getEphemerals": ["ephemerals"],
    "getAllChildrenNumber": ["count"],
    "setquota": ["quota", "set"],
    "listquota": ["quota", "list"],
    "delquota": ["quota", "delete"],
}
"""The names of ZooKeeper's shell, and the words that they stand for."""

NOT_IN_SHELL: Final = frozenset({"shell", "lock", "elect", "4lw"})
"""Commands of `zab.cli.znodes` that the shell does not have: each needs a separate session, or none."""

TAKES_DATA: Final = frozenset({"create", "set", "setAcl", "acl"})
"""Commands whose arguments after the path are data, which may look like anything."""
