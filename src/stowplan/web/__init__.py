"""The page: a cluster, its queue and every decision, to look at and to play with; and its JSON API.

`Page.handle` (`page`) answers every request under `/ui/`, whichever server it came through: the
files of the page (`assets`), and the API that the page and scripts use (`routes`), both behind
`guard`.  What is shown comes from a `Source` (`sources`), read through the public face, a function
per view (`views`, `decisions`, `nodes`); `worlds` are the forks somebody plays with, `changes` is
the stream.  No scheduling happens here, and nothing but forks is ever changed.
"""

from stowplan.web.guard import Guard
from stowplan.web.page import Page
from stowplan.web.sources import Copied, Running, Source, Still

__all__ = ["Copied", "Guard", "Page", "Running", "Source", "Still"]
