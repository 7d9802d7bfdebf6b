"""Which images are on which nodes, for ImageLocality.

As upstream has it: an image's size is what the first node to report it said, and a node's own
entry remembers on how many nodes the image was when that entry was last copied.
"""

from __future__ import annotations

from stowplan.objects.node import Node
from stowplan.state.node_info import ImageState, NodeInfo


class _Image:
    __slots__ = ("nodes", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.nodes: dict[str, int] = {}
        """Name -> the size that this node reports."""


class ImageTable:
    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self.version = 0
        """Grows when an image comes to or leaves a node."""
        self.stale: set[str] = set()
        """Nodes that alone have an image now, of another size than was first reported: their
        next update, even one that changes nothing, makes their size the image's."""

    def fork(self) -> ImageTable:
        fork = ImageTable()
        for name, image in self._images.items():
            copy = fork._images[name] = _Image(image.size_bytes)
            copy.nodes = image.nodes.copy()
        fork.version, fork.stale = self.version, self.stale.copy()
        return fork

    def __contains__(self, name: str) -> bool:
        return name in self._images

    def __len__(self) -> int:
        return len(self._images)

    def add(self, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                record = self._images.get(name)
                if record is None:
                    record = self._images[name] = _Image(image.size_bytes)
                if node.metadata.name not in record.nodes:
                    record.nodes[node.metadata.name] = image.size_bytes
                    self.version += 1

    def remove(self, node: Node) -> None:
        self.stale.discard(node.metadata.name)
        for image in node.status.images or ():
            for name in image.names or ():
                record = self._images.get(name)
                if record is not None and node.metadata.name in record.nodes:
                    del record.nodes[node.metadata.name]
                    self.version += 1
                    if not record.nodes:
                        del self._images[name]
                    elif len(record.nodes) == 1:
                        [(last, size_bytes)] = record.nodes.items()
                        if size_bytes != record.size_bytes:
                            self.stale.add(last)

    def states_of(self, info: NodeInfo) -> dict[str, ImageState]:
        node = info.node
        if node is None or not node.status.images:
            return {}
        images = self._images
        return {
            name: ImageState(images[name].size_bytes, len(images[name].nodes))
            for image in node.status.images
            for name in image.names or ()
        }
