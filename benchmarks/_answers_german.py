"""German passages for `answers.py`, written for it: towns, machines, rules and people that do not exist."""

PASSAGES = [
    "Die Stadt Marbusch liegt an der Elmau und hat 48.312 Einwohner. Sie wurde 1184 von Graf Ottmar von Rehde "
    "gegründet. Der Marktplatz wird an drei Seiten von Fachwerkhäusern begrenzt. Die Brücke über die Elmau "
    "wurde 1947 neu gebaut, nachdem sie im Krieg zerstört worden war. Seit 2003 ist Marbusch Sitz der "
    "Hochschule für Wasserbau.",
    "Die Wärmepumpe Aurelis 9 leistet 8,5 kW bei einer Außentemperatur von 2 Grad. Die Garantie beträgt sieben "
    "Jahre und gilt nicht für Verschleißteile. Das Kältemittel R290 darf nur von zertifizierten Betrieben "
    "nachgefüllt werden. Der Hersteller Thermowerk Sassen empfiehlt eine Wartung im Abstand von zwölf Monaten. "
    "Der Filter kann ohne Werkzeug gewechselt werden.",
    "Beschäftigte haben Anspruch auf 30 Tage Urlaub im Kalenderjahr. Resturlaub muss bis zum 31. März des "
    "Folgejahres genommen werden. Anträge werden im Portal gestellt und von der Teamleitung innerhalb von fünf "
    "Arbeitstagen entschieden. Während der Probezeit kann kein Sonderurlaub gewährt werden. Für Umzüge gibt es "
    "einen freien Tag.",
    "Klara Winterhagen wurde am 4. Mai 1871 in Neuhollen geboren. Sie studierte in Zürich Chemie, weil Frauen "
    "in Neuhollen nicht zugelassen waren. Ihre Arbeit über Farbstoffe erschien 1899 in den Annalen von "
    "Professor Lindqvist. 1906 gründete sie gemeinsam mit Albert Drosten ein Laboratorium. Sie ist bis heute "
    "die einzige Ehrenbürgerin der Stadt.",
    "Der Regionalzug RE 17 verbindet Hollerau mit Bad Simmern in 94 Minuten. Fahrräder können werktags erst ab "
    "9 Uhr mitgenommen werden. Eine Reservierung ist nicht möglich. Die Strecke wurde 1872 eröffnet und 1958 "
    "elektrifiziert. Zwischen Ahlen und Wickerode fährt der Zug durch den 2,3 Kilometer langen Kastaltunnel.",
    "Die Kantine im Haus Nord ist montags bis freitags von 11:30 bis 14:00 Uhr geöffnet. Ein Tagesgericht "
    "kostet 6,80 Euro, für Auszubildende 4,20 Euro. Gäste werden am Empfang angemeldet. Allergene sind auf "
    "jeder Karte vermerkt. Barzahlung ist seit Januar 2024 nicht mehr möglich.",
    "Das Programm Lindenblatt speichert Sitzungen für 14 Tage. Danach werden sie gelöscht und können nicht "
    "wiederhergestellt werden. Die Schnittstelle nimmt höchstens 600 Anfragen in der Minute an. Schlüssel "
    "werden von der Abteilung Betrieb vergeben. Der Testserver hat keine Verbindung zum Netz der Produktion.",
    "Der Fluss Sorpe entspringt auf 612 Metern Höhe im Rothenwald. Er ist 87 Kilometer lang und mündet bei "
    "Egelsbach in die Weser. Im Jahr 1965 stieg das Wasser auf 5,91 Meter. Die Talsperre wurde von dem "
    "Ingenieur Heinrich Kalthoff entworfen. Baden ist im oberen Becken nicht erlaubt.",
    "Reisekosten werden innerhalb von 21 Tagen erstattet. Belege müssen als PDF eingereicht werden. Für "
    "Fahrten mit dem eigenen Auto werden 0,30 Euro je Kilometer gezahlt. Flüge innerhalb Deutschlands werden "
    "nicht genehmigt, wenn die Bahn weniger als sechs Stunden braucht. Ausnahmen entscheidet Frau Petersen aus "
    "dem Einkauf.",
    "Das Museum für Uhren in Gallwitz zeigt 2.140 Stücke aus vier Jahrhunderten. Die älteste Uhr stammt von "
    "dem Meister Jobst Hagenau und wurde 1589 gebaut. Führungen werden auf Deutsch und Polnisch angeboten. "
    "Kinder unter sechs Jahren zahlen keinen Eintritt. Fotografieren mit Blitz ist in allen Räumen verboten.",
    "Der Kompressor K-220 erreicht einen Druck von 16 bar. Das Öl wird nach 500 Betriebsstunden gewechselt. "
    "Der Motor darf nicht ohne Abdeckung gestartet werden. Bei der Meldung E14 ist der Sensor am Auslass "
    "verschmutzt. Ersatzteile liefert die Firma Brandl aus Deggendorf in drei Tagen.",
    "Die Sinfonie in d-Moll von Anton Reuss wurde 1893 in Leipzig uraufgeführt. Sie hat vier Sätze und dauert "
    "etwa 52 Minuten. Der Dirigent Emil Vogler hatte zwei Hörner hinzugefügt. Die Handschrift wird in der "
    "Bibliothek von Weimar aufbewahrt. Eine gedruckte Partitur gab es zu Lebzeiten des Komponisten nicht.",
    "Mietverträge in der Siedlung Tannenhof haben eine Laufzeit von zehn Jahren. Die Miete beträgt 7,45 Euro "
    "je Quadratmeter. Haustiere sind erlaubt, solange sich niemand beschwert. Die Genossenschaft hat 1.870 "
    "Mitglieder und wird von Renate Osterkamp geleitet. Untervermietung ist nicht gestattet.",
    "Der Impfstoff Nuvarin wird in zwei Dosen im Abstand von 28 Tagen gegeben. Er muss bei 2 bis 8 Grad "
    "gelagert werden. In der Studie von Doktor Melchers nahmen 3.406 Menschen teil. Bei 91 Prozent war nach "
    "sechs Monaten ein Schutz nachweisbar. Für Schwangere wurde er nicht geprüft.",
    "Im Winter 1929 war der Bodden elf Wochen lang zugefroren. Die Insel Ruden konnte nur mit Schlitten "
    "versorgt werden. Kapitän Jens Wollin brachte die Post nach Peenemünde. Am 3. März brach das Eis bei "
    "Freest. Seither war der Bodden nie wieder so lange geschlossen.",
    "Die Bibliothek Süd verleiht Bücher für vier Wochen. Eine Verlängerung ist zweimal möglich, wenn niemand "
    "vorgemerkt ist. Die Gebühr für verspätete Rückgabe beträgt 50 Cent am Tag. Zeitschriften werden nicht "
    "verliehen. Der Ausweis kostet 18 Euro im Jahr und wird von der Stadt Kehlen ausgestellt.",
    "Der Gasthof Zum Hirschen wurde 1712 von der Familie Aigner gebaut. Er hat 26 Zimmer und einen Garten mit "
    "120 Plätzen. Das Bier kommt aus der Brauerei Hofstetten. Dienstags ist das Haus geschlossen. Hunde sind "
    "im Speisesaal nicht willkommen.",
    "Der Satellit Perigon 3 wurde am 17. Juni 2019 gestartet. Er umkreist die Erde in 705 Kilometern Höhe und "
    "wiegt 1.240 Kilogramm. Die Daten werden in Oberpfaffen empfangen und sind frei zugänglich. Das Messgerät "
    "stammt von der Universität Uppsala. Der Treibstoff reicht voraussichtlich bis 2031.",
    "Das Passwort muss mindestens 14 Zeichen haben. Es wird alle 180 Tage geändert. Nach fünf falschen "
    "Eingaben ist das Konto 30 Minuten gesperrt. Der Helpdesk fragt nie nach einem Passwort. Verlorene Geräte "
    "werden sofort an Herrn Yilmaz gemeldet.",
    "Die Apfelsorte Goldmantel wurde von dem Gärtner Friedrich Hasse gezüchtet. Sie reift Anfang Oktober und "
    "hält sich bis zu fünf Monate. Der Baum ist gegen Schorf nicht anfällig. In Sachsen werden 310 Hektar "
    "angebaut. Für Saft ist die Sorte wegen ihrer Säure beliebt.",
]  # fmt: skip
