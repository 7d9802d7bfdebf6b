"""The object index: objects by key, and what changed since."""

from __future__ import annotations

import pytest

from stowplan.objects.storage import PersistentVolume, StorageClass
from stowplan.state import object_index
from stowplan.state.object_index import ObjectIndex
from tests.plugins.volume_objects import storage_class, volume


def test_changed_since_names_what_was_put_and_removed() -> None:
    index = ObjectIndex()
    index.put(volume("a"))
    seen = index.version(PersistentVolume)
    index.put(volume("b"))
    index.remove(volume("a"))
    index.remove(volume("never there"))

    assert sorted(index.changed_since(PersistentVolume, seen) or ()) == ["a", "b"]
    assert index.changed_since(PersistentVolume, index.version(PersistentVolume)) == []
    assert index.changed_since(StorageClass, 0) == []
    assert list(index.all(PersistentVolume)) == ["b"]


def test_too_long_ago_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_index, "_LOG_MAX", 3)
    index = ObjectIndex()
    for name in "abcd":
        index.put(storage_class(name))

    assert index.changed_since(StorageClass, 0) is None
    assert sorted(index.changed_since(StorageClass, 1) or ()) == ["b", "c", "d"]
