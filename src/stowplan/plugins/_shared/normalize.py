"""Raw scores to 0..100 in proportion to the highest: upstream's `DefaultNormalizeScore`."""

from __future__ import annotations

import numpy as np

from stowplan.framework.status import MAX_NODE_SCORE, Scores


def normalize(scores: Scores, *, reverse: bool) -> Scores:
    """`reverse`: the highest raw score becomes 0.  Raw scores are never negative.

    >>> normalize(np.array([0, 3, 8]), reverse=False).tolist()
    [0, 37, 100]
    >>> normalize(np.array([0, 1, 3]), reverse=True).tolist()
    [100, 67, 0]
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64) if reverse else scores
    shares: Scores = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - shares if reverse else shares
