"""What a person sees of a run: text, Markdown, HTML, and a live layer of widgets.

events ──▶ steps (fold) ──▶ RunView ──▶ text, markdown, html ──▶ bundle (static)
                                    ──▶ widget, terminal (live)
                            view: picks the layer, observes the run
"""
