"""Closed lists of words in English, German and Chinese: what says little, what denies, what must not be exchanged."""

from __future__ import annotations

from ..retrieval.function_words import GERMAN
from ..retrieval.lexical import STOP_WORDS

_ENGLISH = """
also may might must shall would could should however thus therefore hence additionally moreover furthermore
though although since because whereas around approximately about roughly upon within among across along via
per etc ie eg it's that's there's namely such like just even still yet already often usually generally
respectively said says
"""
# What an answer says about its source, not about the subject.
_TALK = """
according document documents text source sources passage passages states stated mentions mentioned notes noted
provided yes laut dokument dokuments quelle zufolge steht ja angaben gemäß
"""
_PRONOUNS = """
he she it they him her his hers its their theirs them this these that those who which one er sie es ihm ihn
ihr ihre ihrer ihren seine seiner seinen sein dieser diese dieses diesen diesem der die das dort there here 他
她 它 他们 她们 它们 其 该 此 这 牠 祂 牠们
"""
_NEGATIONS = """
not no never none nor neither nobody nothing nowhere without cannot nicht nie niemals kein keine keinen keinem
keiner keines keineswegs niemand niemanden nichts nirgends weder ohne 不 没 沒 无 無 未 非 勿 莫 否 别
"""
# What an edit must keep: exchanged, it says something else.
_POLES = """
before after above below over under more less fewer least most many few all some each every both either only
always sometimes first second third fourth fifth sixth seventh eighth ninth tenth last next previous former
latter north south east west northern southern eastern western northeast northwest southeast southwest left
right up down upper lower high low higher lower highest lowest small larger smaller largest smallest long
short longer shorter longest shortest early late earlier later earliest latest old new older newer oldest
newest young younger youngest increase increases increased decrease decreases decreased rise rose fall fell
grow grew shrink maximum minimum male female man woman men women son daughter father mother brother sister
husband wife won lost win lose open opened closed close start end began begin ended allowed forbidden
prohibited permitted possible impossible true false day days week weeks month months year years hour hours
minute minutes second seconds january february march april june july august september october november
december monday tuesday wednesday thursday friday saturday sunday hundred thousand million billion trillion
dozen half quarter twice vor nach mehr weniger mindestens höchstens erste zweite dritte vierte letzte nächste
norden süden osten westen nördlich südlich östlich westlich links rechts obere untere oberen unteren hohe
niedrige höchste niedrigste größte kleinste kleine lange kurze längste kürzeste frühe späte früher später
älteste jüngste alte neue erlaubt verboten möglich unmöglich geöffnet geschlossen öffnet schließt steigt sinkt
immer manchmal alle einige jede nur beide tag tage tagen woche wochen monat monate monaten jahr jahre jahren
stunde stunden minute minuten sekunde sekunden januar februar märz mai juni juli oktober dezember montag
dienstag mittwoch donnerstag freitag samstag sonntag montags dienstags mittwochs donnerstags freitags samstags
sonntags doppelt halb
"""
_CJK_STOP = """
的 了 在 是 和 与 與 及 以及 并 並 并且 而且 而 或 或者 以 于 於 由 由于 因为 因為 因此 所以 因而 故 但 但是
然而 不过 也 亦 都 就 还 還 又 再 则 則 其 其中 此 此外 该 該 这 這 那 之 之后 之後 以后 以後 后 為 为 乃 即
即是 也是 等 等等 被 把 将 將 对 對 从 從 到 至 至于 向 往 着 著 过 過 地 得 所 者 吧 呢 吗 嗎 啊 目前 现在
現在 如今 大约 大約 约 約 左右 一些 一个 一個 一种 一種 可以 可 能 能够 会 會 有 有关 具有 拥有 擁有 成为 成為
变成 變成 位于 位於 坐落于 坐落於 包括 包含 使用 采用 採用 主要 开始 開始 进行 進行 通过 通過 根据 根據 按照
关于 關於 作为 作為 另外 另 同时 同時 曾 曾经 已 已经 正 正在 时 時 当时 當時 期间 期間 随后 隨後 而后 至今
迄今 迄今为止 说 指出 提到 资料 文中 文件 显示 表示 是的 他 她 它 他们 她们 它们 他們 她們 它們 牠 牠们 我们
我們
"""
_SAME = {
    "%": "percent prozent % 百分",
    "€": "euro euros eur €",
    "$": "dollar dollars usd $",
    "km": "km kilometer kilometers kilometre kilometres kilometern",
    "m": "m meter meters metre metres metern",
    "kg": "kg kilogram kilograms kilogramm",
    "h": "h hour hours stunde stunden",
    "min": "min minute minutes minuten",
    "large": "large big great",
    "groß": "groß große großen großer großes",
}

STOP = frozenset([*STOP_WORDS, *GERMAN, *_ENGLISH.split()])
"""Words whose absence or presence alone changes no fact. Negations are no stop words."""
TALK = frozenset(_TALK.split())
"""Words about the source."""
PRONOUNS = frozenset(_PRONOUNS.split())
NEGATIONS = frozenset(_NEGATIONS.split())
POLES = frozenset(_POLES.split()) - {"over", "right", "each", "end", "open", "close"}
"""Words of time, order, size and amount: one exchanged for another says something else."""
CJK_STOP = tuple(sorted(_CJK_STOP.split(), key=len, reverse=True))
"""Longest first: they are cut out of a run before its single characters."""
SAME = {word: key for key, words in _SAME.items() for word in words.split()}
"""Units and words of size, and what they are written as."""
