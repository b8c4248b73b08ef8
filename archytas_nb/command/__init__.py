"""The command line: ``python -m archytas_nb enable | disable | doctor | clean``."""
