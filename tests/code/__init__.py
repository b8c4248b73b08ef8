"""Tests of the code of runs."""
