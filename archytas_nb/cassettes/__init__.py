"""Replies recorded once and replayed for ever.

Others use `recorded` (which cassette is in use), `cassette` and `model`. Behind these, the file is the matter of
`file`, `format` and `store`; a request that of `request`, `values`, `scrub` and `volatile`; one that was not
recorded that of `tape`, `difference`, `text` and `miss`.
"""
