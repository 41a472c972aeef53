"""German words that carry no subject: articles, pronouns, auxiliaries, particles. English ones are in `lexical`."""

from __future__ import annotations

_GERMAN = """
aber alle allem allen aller als also am an auch auf aus bei beim bin bis bist da dabei dadurch dafür dagegen
daher damit danach dann daran darauf daraus darin darüber darum davon dazu dein deine dem den denn der deren
des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
eines er es etwa euch eurer für gegen gibt gilt habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen
ihr ihre ihrem ihren ihrer im in indem ins ist ja jede jedem jeden jeder jedes jene jetzt kann können könnte
man mehr mein meine mich mir mit muss müssen nach nachdem nun nur ob oder schon sehr sein seine seinem seinen
seiner seit sich sie sind so sobald sofern sogar soll sollen sollte somit sowie und uns unser unter vom von
vor wann war ward waren warum was weil welche welchem welchen welcher welches wenn wer werde werden wie wieder
will wir wird wo wobei wurde wurden während über um zu zum zur zwar zwischen dürfen darf ab lediglich ungefähr
jeweils bzw dass daß etwas noch
"""
GERMAN = frozenset(_GERMAN.split())
