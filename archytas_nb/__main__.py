"""Runs the command line: ``python -m archytas_nb enable | disable | doctor | clean``."""

from archytas_nb.command import main

if __name__ == "__main__":
    raise SystemExit(main())
