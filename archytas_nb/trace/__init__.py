"""What a person sees of a run: a view of its events, drawn as text, HTML and widgets."""
