"""The shared tokeniser and BM25."""

import math

from agent_rag.retrieval.lexical import idf, term_weight, tokenize


def test_drops_stop_words_and_stems() -> None:
    """A question keeps its content words, stemmed, so that it meets the sentence that answers it."""
    assert tokenize("What is the gateway timeout?") == ["gateway", "timeout"]
    assert tokenize("Timeouts of the gateways") == ["timeout", "gateway"]


def test_keeps_stop_words_when_nothing_else_is_left() -> None:
    """A query of stop words alone still has tokens."""
    assert tokenize("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_splits_chinese_into_characters_and_pairs() -> None:
    """Runs of Chinese become single characters and neighbouring pairs."""
    assert tokenize("今天下雨。") == ["今", "天", "下", "雨", "今天", "天下", "下雨"]


def test_keeps_combining_marks_inside_words() -> None:
    """Hindi vowel signs are part of the word. (A plain \\w cuts there, -.17 nDCG@10.)"""
    assert len(tokenize("हिन्दी भाषा")) == 2


def test_folds_full_width_letters_and_case() -> None:
    """Full-width and half-width spellings are one token."""
    assert tokenize("ＡＢＣ") == tokenize("abc") == ["abc"]


def test_splits_identifiers_at_underscores() -> None:
    """snake_case is searchable by its words."""
    assert tokenize("max_context_tokens") == ["max", "context", "token"]


def test_camel_case_is_found_by_its_words_and_as_a_whole() -> None:
    """The parts stand behind the text; acronyms are parts, their plurals and long keys are not cut."""
    assert tokenize("parseHttpHeader") == ["parsehttphead", "pars", "http", "header"]
    assert tokenize("HTTPServer utf8Decode") == ["httpserver", "utf8decod", "http", "server", "utf8", "decod"]
    assert tokenize("URLs B2B") == ["url", "b2b"]
    assert tokenize("aB" * 40) == ["ab" * 40]


def test_camel_case_and_snake_case_share_their_words() -> None:
    """Either spelling finds the other."""
    assert set(tokenize("read_csv_file")) < set(tokenize("ReadCsvFile"))


def test_bm25_parts_agree_with_a_worked_example() -> None:
    """3 chunks, the term in 1 of them, twice, in a chunk of average length: idf = ln(1 + 2.5/1.5), weight = 2/3.2."""
    assert math.isclose(idf(3, 1), 0.980829253)
    assert math.isclose(term_weight(2, 10, 10), 2 / 3.2)


def test_full_width_punctuation_divides_words_and_only_that() -> None:
    """Chinese text is normalised but for its punctuation; full-width letters, digits and the middle dot count."""
    assert tokenize("\u7f51\u5173\uff0c\u8d85\u65f6\uff1f") == tokenize("\u7f51\u5173,\u8d85\u65f6?")
    assert tokenize("\uff30\uff24\uff26\uff01 \uff11\uff12") == ["pdf", "12"]
    assert tokenize("\u30a2\uff65\u30a2") == ["\u30a2", "\u30fb", "\u30a2", "\u30a2\u30fb", "\u30fb\u30a2"]


def test_a_word_is_the_same_beside_any_character() -> None:
    """A curly quote, a dash or an accent behind an ASCII word changes only what it belongs to."""
    assert tokenize("gateway\u2019s timeout\u2014retry") == ["gateway", "timeout", "retri"]
    assert tokenize("na\u00efve caf\u00e9s") == ["na\u00efv", "caf\u00e9"]
    assert tokenize("cafe\u0301s") == tokenize("caf\u00e9s")
    assert tokenize("word\u65e5\u672c") == ["word", "\u65e5", "\u672c", "\u65e5\u672c"]


def test_scripts_without_blanks_become_threes() -> None:
    """Thai, Lao, Khmer and Burmese: a word is found within a sentence, whatever zero-width blanks an editor put in."""
    sentence, word = "แมวนอนวันละสิบหกชั่วโมง", "ชั่วโมง"

    assert tokenize("แมวนอน") == ["แมว", "มวน", "วนอ", "นอน"]
    assert set(tokenize(word)) < set(tokenize(sentence))
    assert tokenize("ภาษ\u200bาไทย") == tokenize("ภาษาไทย")
    assert tokenize("\u1780\u1781\u17d4\u1782\u1783\u1784") == ["\u1780\u1781", "\u1782\u1783\u1784"]
    assert set(tokenize("\u0e9e\u0eb2\u0eaa\u0eb2")) < set(tokenize("\u0e9e\u0eb2\u0eaa\u0eb2\u0ea5\u0eb2\u0ea7"))
    assert set(tokenize("\u1019\u103c\u1014\u103a")) < set(tokenize("\u1019\u103c\u1014\u103a\u1019\u102c"))


def test_latin_words_end_where_such_a_script_begins() -> None:
    """A product name inside a Thai sentence is a word of its own."""
    assert tokenize("เปิดLinuxก่อน") == ["เปิ", "ปิด", "linux", "ก่อ", "่อน"]
