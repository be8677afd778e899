"""Features of the learned ranking: what each channel says of a hit."""

from __future__ import annotations

import numpy as np
import pytest

from ragwright.core import ChannelScore, ConfigError, Hit, RetrieveError
from ragwright.retrieve import FEATURES, Asked, Ranker, Trees, features


def hit(rank: int, **channels: tuple[int, float]) -> Hit:
    found = {name: ChannelScore(*place) for name, place in channels.items()}
    return Hit(rank, 1.0 / rank, f"d{rank}", f"c{rank}", "s", "", None, 0, 4, "text",
               channels=found)  # fmt: skip


HITS = [
    hit(1, keyword=(1, 4.0), late=(2, 8.0)),
    hit(2, sparse=(1, 6.0), late=(1, 10.0)),
    hit(3, sparse=(3, 1.5)),
]


def columns(hits: list[Hit]) -> dict[str, list[float]]:
    table = features(hits, Asked.of("text", (), None), None)
    return dict(zip(FEATURES, np.round(table.T, 6).tolist(), strict=True))


def test_sparse_and_late_scores_are_features() -> None:
    found = columns(HITS)
    assert found["sparse"] == [0, 1, 0.25]
    assert found["sparse_rank"] == pytest.approx([0, 1, 0.5])
    # What a channel did not find cannot be better than what it found last.
    assert found["late"] == pytest.approx([-0.2, 0, -0.2])
    assert found["late_rank"] == pytest.approx([1 / np.log2(3), 1, 0], abs=1e-6)


def test_without_these_channels_their_features_say_nothing() -> None:
    found = columns([hit(1, keyword=(1, 4.0)), hit(2, dense=(1, 0.5))])
    assert not any(any(found[name]) for name in ("sparse", "sparse_rank", "late", "late_rank"))


LEAF = np.zeros(1, np.int64)
TREES = Trees(LEAF, LEAF - 1, np.zeros(1), LEAF, LEAF, np.zeros(1))


@pytest.mark.parametrize(
    ("mode", "encoders", "reason"),
    [
        ("keyword", {}, "trained for hybrid search, and this is keyword search"),
        ("hybrid", {}, "trained with late, sparse, and this search uses no further channel"),
        ("hybrid", {"late": "b", "sparse": "s"}, "trained with another model of late, sparse"),
    ],
)
def test_other_channels_or_models_are_refused(
    mode: str, encoders: dict[str, str], reason: str
) -> None:
    ranker = Ranker(TREES, 50, "hybrid", "", encoders={"late": "a", "sparse": "s"})
    ranker.check_search("hybrid", {"sparse": "s", "late": "a"})
    with pytest.raises(RetrieveError, match=reason):
        ranker.check_search(mode, encoders)


def test_a_ranker_of_fewer_features_stays_usable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Those that this version added stand at the end; any others are refused."""
    path = tmp_path_factory.mktemp("ranker") / "r.json"
    Ranker(TREES, 50, "keyword", "").save(path)
    text = path.read_text()
    late = ', "sparse", "sparse_rank", "late", "late_rank"'
    assert late in text
    path.write_text(text.replace(late, "").replace(', "encoders": {}', ""))
    assert Ranker.load(path).encoders == {}
    path.write_text(text.replace('"support", ', ""))
    with pytest.raises(ConfigError, match="features of version"):
        Ranker.load(path)
