"""What a person sees of a run: text, Markdown, HTML, and a live layer of widgets."""
