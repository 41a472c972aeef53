"""What people say that asks a knowledge base for nothing, in four languages. Written before the gate."""

SMALL_TALK = {
    "en": """Hi|Hello!|Hey there|Good morning|Good evening everyone|hi, how are you?|How are you doing
today?|Thanks|Thank you very much!|Thanks a lot for your help|thx|ty|Great, thanks|Perfect, thank you so
much|OK|Okay, got it|Alright|Understood|I see|That makes sense|That helps a lot|Cool|Awesome!|Nice|Bye|Goodbye,
have a nice day|See you later|Sounds good|👍|Thank you for the explanation|No problem|Yes please|Much
appreciated|haha|Well done, thank you!""",
    "de": """Hallo|Guten Morgen!|Guten Tag|Hi zusammen|Moin|Servus|Wie geht es dir?|Wie geht's?|Danke|Vielen
Dank!|Danke schön|Vielen Dank für die Hilfe|Danke für die schnelle Antwort|Super, danke dir|Perfekt|Alles
klar|Ok, verstanden|Gut|Prima, das hilft mir sehr|Ach so|Tschüss|Auf Wiedersehen|Bis später|Schönen Tag
noch|Schönes Wochenende!|Kein Problem|Ja bitte|Genau|Sehr gut, danke|Klasse|Grüß Gott|Herzlichen Dank""",
    "fr": """Bonjour|Bonsoir !|Salut|Coucou|Comment ça va ?|Comment allez-vous ?|Merci|Merci beaucoup !|Merci pour
votre aide|Un grand merci|D'accord|Ok merci|Parfait|Très bien, merci|Super !|C'est compris|Je vois|Au
revoir|Bonne journée|À bientôt|Bon week-end|Pas de problème|Oui merci|Génial|Merci pour l'explication|Bonne
soirée !|Ça marche|Entendu""",
    "zh": """
你好|您好！|嗨|早上好|晚上好|大家好|你好吗？|最近怎么样？|谢谢|谢谢你！|非常感谢|多谢|谢谢你的帮助|谢谢您的解答|太好了，谢谢|好的|好的，
明白了|知道了|了解|明白|没问题|很好|不错|太棒了！|再见|拜拜|晚安|辛苦了|祝你有美好的一天|嗯嗯|哈哈|收到""",
}  # fmt: skip
"""Greetings, thanks, goodbyes, agreement; separated by ``|``."""

ABOUT_THE_ANSWER = {
    "en": """Make it shorter|Please summarize that|Can you translate this into German?|Translate your last answer
to French|Could you rephrase that?|Say that again in simpler words|Repeat that please|Put it in a table|As
bullet points please|Write it as an email|Shorter please|Can you make that more formal?|Rewrite this in a
friendly tone|In English please|Summarize your answer in two sentences|Explain that in simple terms|Can you put
this into a list?|Please format it as markdown|Turn that into a table|What do you mean by that?""",
    "de": """Kürzer bitte|Fasse das zusammen|Kannst du das bitte zusammenfassen?|Übersetze das ins Englische|Bitte
auf Englisch|Kannst du das einfacher erklären?|Wiederhole das bitte|Sag das noch einmal|Als Tabelle bitte|In
Stichpunkten|Schreib das als E-Mail|Formuliere das um|Bitte etwas förmlicher|Mach daraus eine Liste|Kannst du
das übersetzen?|Erklär das bitte noch mal in einfachen Worten|Fass deine Antwort in zwei Sätzen zusammen|Was
meinst du damit?""",
    "fr": """Plus court s'il te plaît|Résume cela|Peux-tu résumer ta réponse ?|Traduis ça en anglais|En français
s'il vous plaît|Peux-tu reformuler ?|Répète s'il te plaît|Sous forme de tableau|En quelques points|Mets-le dans
une liste|Explique plus simplement|Réécris ça sur un ton plus formel|Résume ta réponse en deux phrases|Traduis
ta dernière réponse en allemand""",
    "zh": """
请简短一点|总结一下|请把它翻译成英文|翻译成德语|再说一遍|请重复一下|用表格列出来|用要点列出|请换个说法|简单一点|把上面的回答缩短一点|
用更简单的话解释一下|请用中文回答|写成邮件|改写得正式一点|把你的回答总结成两句话|你是什么意思？""",
}  # fmt: skip
"""Requests about the answer before: another length, language or form."""


def listed(lines: str) -> list[str]:
    return [" ".join(part.split()) for part in lines.split("|")]
