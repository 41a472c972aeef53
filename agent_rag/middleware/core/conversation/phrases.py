"""The closed lists of `gate`: case-folded words of English, German and French, and phrases of Chinese."""

from __future__ import annotations

_SMALL_TALK = """
hi hello hey hiya there everyone all team good morning afternoon evening night day weekend week thanks thank thx
ty you so very much many a lot for your the help explanation answer information quick great perfect ok okay
alright got it understood i see that makes sense helps helped me cool awesome nice bye goodbye have see later
sounds no problem yes please appreciated appreciate haha lol well done wonderful excellent super fine clear
welcome cheers sure right again hallo guten morgen tag abend gute nacht zusammen moin servus danke vielen dank
schön dir ihnen für die hilfe schnelle antwort erklärung perfekt alles klar verstanden gut prima das hilft mir
sehr ach so tschüss auf wiedersehen bis später bald schönen schönes grüss noch wochenende kein ja nein bitte
genau klasse grüß gott herzlichen toll wunderbar passt bonjour bonsoir salut coucou merci beaucoup pour votre
ton aide un grand d'accord parfait très bien c'est compris je vois au revoir bonne journée soirée à bientôt bon
week end pas de problème oui non génial l'explication réponse ça marche entendu
"""
SMALL_TALK = frozenset(_SMALL_TALK.split())
"""A message of these alone, and without a question mark, asks for nothing."""

_COURTESIES = """
how are you|hi how are you|hello how are you|how are you doing|how are you doing today|how are you today|what's up
wie geht es dir|wie geht es ihnen|wie geht's|wie geht's dir|hallo wie geht es dir|hallo wie geht's
comment ça va|ça va|comment allez vous|comment vas tu|bonjour comment allez vous|salut ça va
"""
COURTESIES = frozenset(phrase for line in _COURTESIES.strip().split("\n") for phrase in line.split("|"))
"""Whole questions that ask for nothing."""
_REQUESTS = """
what do you mean|what do you mean by that|what does that mean|was meinst du|was meinst du damit|wie meinst du das
que veux tu dire|qu'est ce que ça veut dire
"""
REQUESTS = frozenset(phrase for line in _REQUESTS.strip().split("\n") for phrase in line.split("|"))
"""Whole questions about the last answer."""

_CHANGES = """
translate summarize summarise shorten rephrase reword rewrite repeat simplify reformat shorter simpler briefer
übersetze übersetzen fasse fass zusammenfassen zusammen kürzer kürze einfacher wiederhole wiederholen umformulieren um
förmlicher formeller
traduis traduire résume résumer court simplement reformule reformuler répète répéter réécris
"""
CHANGES = frozenset(_CHANGES.split())
"""Verbs and comparatives that ask for another form of the last answer."""

_FORMS = """
table list bullet bullets points email mail e format markdown json tone style formal friendly simple terms words
sentence sentences english german french spanish chinese italian paragraph
tabelle liste stichpunkten stichpunkte worten sätzen satz englisch deutsch französisch spanisch englische deutsche
französische förmlich formell einfachen einfach
tableau liste points phrases phrase anglais français allemand espagnol formel ton mots
"""
FORMS = frozenset(_FORMS.split())
"""Forms and languages."""

_REFERENCES = """
that this it them daraus das deine antwort ça cela le ta as als sous
"""
REFERENCES = frozenset(_REFERENCES.split())
"""What stands for the last answer."""

POLITE = frozenset(("please", "bitte", "plaît", "plait"))
"""As in "in English, please"."""

_AROUND = """
can could would you please me for again in into to a an the one two three your last previous answer response
reply text make put write turn say explain give more less and of by with using only just bit little kannst
könntest du bitte noch mal nochmal einmal ins auf in zwei drei einem eine ein mach schreib sag erkläre erklär
erklären formuliere etwas mir es und die letzte s'il te plaît vous plait peux tu pouvez en de quelques forme
dans une un plus sur réponse dernière mets mets-le deux trois explique sous d'un
"""
AROUND = frozenset(_AROUND.split())
"""What stands around them."""

CHINESE = tuple(
    """你好 您好 嗨 哈喽 早上好 下午好 晚上好 早安 晚安 大家好 你好吗 您好吗 最近怎么样 谢谢 谢谢你 谢谢您
非常感谢 感谢 多谢 太感谢了 你的帮助 您的帮助 你的解答 您的解答 的帮助 的解答 的回答 太好了 好的 好 明白了 明白
知道了 了解 了解了 没问题 很好 不错 太棒了 再见 拜拜 辛苦了 祝你有美好的一天 祝您愉快 嗯 哦 哈 收到 可以 是的 对
谢啦 你 您""".split()  # noqa: SIM905
)
CHINESE_REQUESTS = tuple(
    """简短 总结 翻译 再说一遍 重复 用表格 列出 列出来 用要点 换个说法 简单一点 缩短 简单的话 用中文回答
用英文回答 写成邮件 改写 概括 简化 你是什么意思 什么意思""".split()  # noqa: SIM905
)
CHINESE_AROUND = tuple(
    """请 麻烦 你 您 把 将 它 这个 上面 刚才 以上 的 回答 答案 内容 成 为 英文 英语 德语 德文 法语 中文 日语 一下
一点 一遍 更 用 解释 得 正式 两句话 一句话 三句话 列表 邮件 再 帮我 能 可以 吗 了 你的 您的 短 话""".split()  # noqa: SIM905
)
