"""One function documented in many ways; what is read of it should be the same, whatever the spelling."""

from __future__ import annotations

DOCS: dict[str, str] = {
    "google": """Find things.

    Looks everywhere.

    Args:
        a (int): The first.
        b (str): The second,
            with more: a colon.
        c (bool, optional): The third. Defaults to True.

    Returns:
        float: How many.
    """,
    "google_untyped": """Find things.

    Looks everywhere.

    Args:
        a: The first.
        b: The second,
            with more: a colon.
        c: The third. Defaults to True.

    Returns:
        How many.
    """,
    "google_no_blank_lines": """Find things.

    Looks everywhere.
    Args:
        a: The first.
        b: The second,
            with more: a colon.
        c: The third. Defaults to True.
    Returns:
        float: How many.""",
    "google_keyword_args": """Find things.

    Looks everywhere.

    Args:
        a : The first.
        b (str) : The second,
            with more: a colon.

    Keyword Args:
        c: The third. Defaults to True.

    Returns:
        float: How many.
    """,
    "google_tabs": "Find things.\n\n\tLooks everywhere.\n\n\tArgs:\n\t\ta (int): The first.\n\t\tb: The second,\n"
    "\t\t\twith more: a colon.\n\t\tc: The third. Defaults to True.\n\n\tReturns:\n\t\tfloat: How many.\n\t",
    "google_crlf": "Find things.\r\n\r\n    Looks everywhere.\r\n\r\n    Args:\r\n        a: The first.\r\n"
    "        b: The second,\r\n            with more: a colon.\r\n        c: The third. Defaults to True.\r\n\r\n"
    "    Returns:\r\n        float: How many.\r\n    ",
    "google_bullets": """Find things.

    Looks everywhere.

    Args:
        - a (int): The first.
        - `b` (str): The second,
            with more: a colon.
        - c (bool): The third. Defaults to True.

    Returns:
        float: How many.
    """,
    "numpy": """Find things.

    Looks everywhere.

    Parameters
    ----------
    a : int
        The first.
    b : str
        The second,
        with more: a colon.
    c : bool, optional
        The third. Defaults to True.

    Returns
    -------
    float
        How many.
    """,
    "numpy_other": """Find things.

    Looks everywhere.

    Parameters
    ----------
    a: int
        The first.
    b
        The second,
        with more: a colon.

    Other Parameters
    ----------------
    c : bool, default True
        The third. Defaults to True.

    Returns
    -------
    n : float
        How many.
    """,
    "sphinx": """Find things.

    Looks everywhere.

    :param a: The first.
    :type a: int
    :param str b: The second,
        with more: a colon.
    :param c: The third. Defaults to True.
    :returns: How many.
    :rtype: float
    """,
    "google_two_line_summary": """Find
    things.

    Looks everywhere.

    Arguments:
        *a: The first.
        b: The second,
          with more: a colon.
        c: The third. Defaults to True.

    Returns:
        float: How many.
    """,
}

NOTED = """Look things up.

Args:
    a (dict[str, int]): Größe: wide.
    b (Literal['x:y', 'z']): One of
        two:

        - x:y
        - z

Raises:
    KeyError: Nothing is there.

Note:
    Slow.

Examples:
    >>> f({"x": 1})
    1
"""


def documented(doc: str, name: str = "find"):
    """Make the function with that docstring."""

    def find(a: int, b: str, c: bool = True) -> float:
        return float(len(b)) + a + c

    find.__doc__, find.__name__ = doc, name
    return find


def noted(a: dict[str, int], b: str = "z") -> int:
    return len(a) + len(b)


noted.__doc__ = NOTED

STYLES = [documented(DOCS["google"]), noted]
