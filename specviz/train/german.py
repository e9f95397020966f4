"""German sentences without end, put together by a small grammar: to be translated.

The target translates what it has never seen, so a handful of fixed sentences would teach a drafter
those by heart. Words are chosen so that any of them fit together grammatically; what they say is
often odd. For prompts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

SUBJECTS = (  # nominative, third person singular
    "der Bürgermeister", "die Regierung", "ein Sprecher der Polizei", "die junge Ärztin",
    "mein Nachbar", "der Trainer", "die Firma", "das Gericht", "eine Gruppe von Studenten",
    "der Minister für Verkehr", "die Lehrerin", "das Krankenhaus", "ein Reporter aus Wien",
    "der Vorstand", "die Stadt", "ihre Tochter", "der Verein", "eine Forscherin", "das Parlament",
    "der alte Fischer", "die Bank", "ein Kunde", "der Präsident", "die Universität",
)  # fmt: skip
OBJECTS = (  # accusative
    "den neuen Vertrag", "die Ergebnisse der Studie", "das alte Rathaus", "einen Plan für den Winter",
    "die Preise", "den Bericht", "eine Lösung", "das Spiel", "die Reise nach Italien", "den Antrag",
    "die Zahl der Besucher", "das Problem mit dem Wasser", "einen langen Brief", "die Brücke",
    "den Umbau des Bahnhofs", "die Rechte der Mieter", "das Buch über die Sterne", "den Streit",
    "eine Ausstellung", "die Kosten der Reparatur", "den Weg durch den Wald", "das Konzert",
)  # fmt: skip
VERBS = (  # past, participle with "haben"
    ("lobte", "gelobt"), ("prüfte", "geprüft"), ("kritisierte", "kritisiert"), ("fand", "gefunden"),
    ("erwähnte", "erwähnt"), ("plante", "geplant"), ("verschob", "verschoben"),
    ("verteidigte", "verteidigt"), ("beschrieb", "beschrieben"), ("vergaß", "vergessen"),
    ("bezahlte", "bezahlt"), ("änderte", "geändert"), ("verlangte", "verlangt"),
    ("unterstützte", "unterstützt"), ("untersuchte", "untersucht"), ("begrüßte", "begrüßt"),
)  # fmt: skip
TIMES = (
    "gestern", "am Montag", "im vergangenen Jahr", "kurz vor Mitternacht", "seit dem Sommer",
    "nach langer Debatte", "zum ersten Mal", "vor drei Wochen", "am frühen Morgen", "trotz des Regens",
    "wegen der hohen Kosten", "im März", "während der Sitzung", "ohne zu zögern", "schon wieder",
)  # fmt: skip
PLACES = (
    "in Berlin", "auf dem Marktplatz", "im Radio", "vor dem Bahnhof", "in einer kleinen Stadt",
    "bei einem Treffen in Brüssel", "im Süden des Landes", "auf der Insel", "vor Gericht",
    "in der Schule", "am Telefon", "im Krankenhaus", "an der Grenze", "in ganz Europa",
)  # fmt: skip
LINKS = ("weil", "obwohl", "während", "bevor", "damals, als", "ohne zu wissen, dass")
SHARES = ("der Befragten", "der Einwohner", "der Kinder", "der Betriebe", "der Wähler")


def sentence(random: Random) -> str:
    """One to two clauses, as in a newspaper or a letter."""
    pick = random.choice
    (past, participle), (other_past, _) = random.sample(VERBS, 2)
    subject, other = random.sample(SUBJECTS, 2)
    thing, other_thing = random.sample(OBJECTS, 2)
    time, place = pick(TIMES), pick(PLACES)
    main = pick(
        (
            f"{time} {past} {subject} {place} {thing}",
            f"{subject} {past} {time} {thing}",
            f"{subject} hat {time} {place} {thing} {participle}",
            f"{place} hat {subject} {thing} {participle}",
            f"{random.randint(5, 95)} Prozent {pick(SHARES)} sagten {time}, dass {subject} {thing} "
            f"{participle} hat",
            f"{subject} sagte {place}, man habe {time} {thing} {participle}",
        )
    )
    clause = f", {pick(LINKS)} {other} {other_thing} {other_past}" if random.random() < 0.5 else ""
    return main[0].upper() + main[1:] + clause + "."


def sentences(random: Random, counts: Sequence[int] = (1, 1, 1, 2, 3)) -> str:
    return " ".join(sentence(random) for _ in range(random.choice(counts)))
