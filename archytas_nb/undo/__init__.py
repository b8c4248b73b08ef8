"""Undo: records what a run changes in the variables, and restores them."""

import sys

from archytas_nb.hints import CalledModule

sys.modules[__name__].__class__ = CalledModule
