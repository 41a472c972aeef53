"""Questions that need the message before them, and questions that do not. Written before the rules that tell them."""

FOLLOW_UPS = {
    "en": """And its warranty?|What about the red one?|How much does it cost?|Why?|When was that?|Who wrote it?|Is
it waterproof?|How about in Germany?|Can they be returned?|What are the alternatives?|And on weekends?|Does this
also apply to contractors?|How long does that take?|Where can I find them?|What did he do next?|And for
children?|Are there any exceptions?|Which of those is cheaper?|Who is responsible for that?|What happens
then?|How many of them are left?|Is there a newer version of it?|What else?|Since when?|And the second one?|Why
did she leave?|Can you give an example?|How so?|Do I need to pay for this?|Which one is better?""",
    "de": """Und die Garantie?|Was kostet das?|Wie lange dauert es?|Warum?|Und am Wochenende?|Gilt das auch für
Praktikanten?|Wer hat es geschrieben?|Wo finde ich sie?|Und wie ist es mit Kindern?|Seit wann?|Welche davon ist
günstiger?|Was passiert dann?|Kann man ihn zurückgeben?|Gibt es Ausnahmen?|Und in Österreich?|Wer ist dafür
zuständig?|Was noch?|Wie viele davon gibt es?|Ist es wasserdicht?|Was ist der Unterschied?|Warum ist er
gegangen?|Wann war das?|Und die zweite?|Muss ich dafür zahlen?""",
    "zh": """
它的保修期呢？|那价格呢？|为什么？|什么时候？|他后来怎么样了？|这个多少钱？|还有呢？|周末呢？|那在德国呢？|谁写的？|它防水吗？|这也适用于
实习生吗？|需要多长时间？|哪一个更便宜？|然后呢？|他们有多少人？|有例外吗？|谁负责这个？|有什么区别？|第二个呢？""",
}  # fmt: skip

STANDALONE = {
    "en": """What is the warranty of the heat pump HP9?|How many vacation days do employees in Germany have?|Who
wrote the report on water quality in 2019?|How do I reset the password of my mail account?|What does the error
E14 of the compressor mean?|When was the bridge over the Elmau rebuilt?|Which vaccines must be stored below
eight degrees?|How are travel expenses with a private car reimbursed?|What is the maximum number of requests per
minute of the API?|Where is the annual report of the company published?|Explain the difference between static
and agentic mode in the middleware|List all public holidays in Bavaria|Who was the first woman to climb Mount
Everest?|What is the capital of Australia?|How long is the Kastaltunnel between Ahlen and Wickerode?|What rules
apply to the storage of chemicals in the laboratory?|Why did the Roman Empire collapse?|Which companies supply
spare parts for the compressor K-220?""",
    "de": """Wie lange gilt die Garantie der Wärmepumpe HP9?|Wie viele Urlaubstage haben Beschäftigte in
Deutschland?|Was bedeutet der Fehler E14 beim Kompressor?|Wann wurde die Brücke über die Elmau neu gebaut?|Wie
werden Reisekosten mit dem eigenen Auto erstattet?|Wer hat den Bericht zur Wasserqualität 2019
geschrieben?|Welche Impfstoffe müssen unter acht Grad gelagert werden?|Wie setze ich das Passwort meines
Postfachs zurück?|Was kostet das Mittagessen in der Kantine im Haus Nord?|Wer leitet die Genossenschaft
Tannenhof?|Wie lang ist der Kastaltunnel zwischen Ahlen und Wickerode?|Wer war die erste Frau auf dem Mount
Everest?""",
    "zh": """
热泵HP9的保修期是多长？|德国员工每年有多少天假期？|压缩机的E14错误是什么意思？|埃尔毛河上的桥是什么时候重建的？|如何重置我的邮箱密码？|
私家车出差的费用如何报销？|澳大利亚的首都是哪里？|谁是第一位登上珠穆朗玛峰的女性？|哪些疫苗必须在八度以下保存？|公司的年度报告在哪里发布？""",
}  # fmt: skip


def listed(lines: str) -> list[str]:
    return [" ".join(part.split()) for part in lines.split("|")]
