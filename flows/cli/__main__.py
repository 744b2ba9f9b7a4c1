"""Run the command line, as `python -m flows.cli` does."""

from flows.cli import main

__all__ = ()

if __name__ == "__main__":
    main()
