"""``python -m archytas_nb enable | disable | doctor``."""

from archytas_nb.command.line import main

if __name__ == "__main__":
    raise SystemExit(main())
