"""What is assumed of an object stands on one version of it, and falls with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.storage import PersistentVolume
from stowplan.plugins.volume_binding.assumed import _SWEEP_MIN, Assumed
from stowplan.state.object_index import ObjectIndex
from tests.plugins.volume_objects import volume

steps = st.lists(
    st.tuples(
        st.sampled_from(["show", "assume", "assume", "outdated", "forget", "forget first", "gone"]),
        st.sampled_from("abc"),
    ),
    min_size=8,
    max_size=40,
)


def at(name: str, version: int) -> PersistentVolume:
    return volume(name, metadata={"name": name, "resourceVersion": str(version)})


@given(steps)
def test_the_latest_assumption_of_the_version_that_is_shown(steps: list[tuple[str, str]]) -> None:
    index = ObjectIndex()
    assumed = Assumed(index, PersistentVolume)
    shown: dict[str, PersistentVolume] = {}
    standing: dict[str, list[PersistentVolume]] = {}
    for version, (step, name) in enumerate(steps, 1):
        if step == "show":
            after = at(name, version)
            index.put(after)
            shown[name] = after
            standing.pop(name, None)
        elif step == "gone" and name in shown:
            index.remove(shown.pop(name))
            standing.pop(name, None)
        elif step == "assume" and name in shown:
            copy = at(name, int(shown[name].metadata.resource_version))
            assert assumed.assume(copy)
            standing.setdefault(name, []).append(copy)
        elif step == "outdated":
            assert not assumed.assume(at(name, 1000 + version))
        elif step == "forget" and standing.get(name):
            assumed.forget(standing.pop(name)[-1])
        elif step == "forget first" and len(standing.get(name, ())) > 1:
            assumed.forget(standing[name][0])

        for each in "abc":
            expected = standing[each][-1] if each in standing else shown.get(each)
            assert assumed.get(each) is expected
        assert sorted(map(id, assumed)) == sorted(id(made[-1]) for made in standing.values())


def test_assumptions_that_have_fallen_are_swept_away() -> None:
    index = ObjectIndex()
    assumed = Assumed(index, PersistentVolume)
    for number in range(10 * _SWEEP_MIN):
        thing = at(f"v{number}", 1)
        index.put(thing)
        assert assumed.assume(at(f"v{number}", 1))
        index.remove(thing)

    assert len(assumed._assumed) <= 2 * _SWEEP_MIN
    index.put(at("w", 1))
    assert assumed.assume(at("w", 1))
    assert assumed.get("w") is not None
