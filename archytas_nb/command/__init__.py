"""What ``python -m archytas_nb`` does: load the extension with every kernel, or not; say how things stand."""
