"""`python -m zab`: the command line, where `zab` itself is not on the path."""

from zab.cli.main import main

if __name__ == "__main__":
    main()
