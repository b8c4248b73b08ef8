"""The Model Context Protocol: tools of the notebook for other programs, and theirs for it.

`calls` runs what another program calls as a run of the notebook, `server` offers the tools, and
`client` connects to servers of others. ``mcp`` (the extra ``[mcp]``) is imported when it is needed.
"""
