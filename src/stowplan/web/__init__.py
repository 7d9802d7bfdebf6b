"""The page: a cluster, its queue and every decision, to look at and to play with; and its JSON API.

`Page.handle` (`page`) answers every request under `/ui/`, whichever server it came through: the
files of the page (`assets`), and the API that the page and scripts use (`routes`), both behind
`guard`.  What is shown comes from a `Source` (`sources`), read through the public face, a function
per view (`queues`, `decisions`, `nodes`); `worlds` are the forks somebody plays with, `changes` is
the stream.  `replay` plays the results of a simulation instead.  No scheduling
happens here, and nothing but forks is ever changed.
"""

from stowplan.web.guard import Guard
from stowplan.web.page import Page
from stowplan.web.replay import Replay
from stowplan.web.sources import Beside, ClusterSource, Running, Source, Still, Watching

__all__ = [
    "Beside",
    "ClusterSource",
    "Guard",
    "Page",
    "Replay",
    "Running",
    "Source",
    "Still",
    "Watching",
]
