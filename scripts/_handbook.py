"""Build the binary files of the demo corpus in ``examples/handbook``.

Needs: reportlab, matplotlib (brings numpy), python-docx, python-pptx, openpyxl, pillow. The text files of the
corpus are written by hand. Rerunning with the same package versions gives the same bytes. All facts are
invented.

The texts below use a small markup: ``# ``/``## `` headings, ``- `` items, ``| a | b`` table rows, header
first (in Word ``<``/``^`` merge a cell with the one left/above), ``![picture|caption]``, ``[^note]`` for a
Word footnote, ``@page`` for a page break, ``@two``/``@one`` for the column layout of the pages that follow.
"""

import datetime as dt
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
import matplotlib.pyplot as plt
import numpy as np
import openpyxl
import pptx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from matplotlib.colors import LightSource
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from openpyxl.styles import Alignment, Font
from PIL import Image, ImageDraw, ImageFilter
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from reportlab import platypus as rl
from reportlab.lib.styles import getSampleStyleSheet

HERE = Path(__file__).resolve().parent / "handbook"
STAMP = dt.datetime(2025, 2, 3, 9, 0, 0)
AUTHOR = "Tarnholm documentation guild"
CM = 72 / 2.54

GUIDE = """
# Lumo installation guide
Document LG-0417, revision F. For the models Lumo 6, Lumo 9 and Lumo 12 with propane (R290).
![unit|The Lumo outdoor unit. The two water pipes leave at the back.]
This guide is written for trained installers. The refrigerant circuit is closed and filled in the factory;
nobody opens it on site. Everything you connect is water and electricity. Read the whole guide once before
you unpack the unit, then keep it on the phone for looking things up. Questions go to the installer line in
Linköping.
@page
# 1 Choosing the place
Propane is heavier than air and can burn. Around the unit there is a protective zone of 1.3 m on every side,
from the ground to the top edge of the casing. No window, door, light shaft, floor drain or socket may lie
inside it.
| Side of the unit | Shortest distance to a wall | Remark
| Back, air inlet | 0.30 m | 0.45 m where snow drifts
| Front, air outlet | 2.00 m | never towards a footpath
| Left | 0.50 m | room for the service cover
## 1.1 Sound and cold air
A place in front of one hard wall adds three decibels, a corner adds six. Draw the bedroom windows of the
neighbours into the plan first, and only then the pipes. Cold air from the fan runs downhill like water, so
do not put the unit in a hollow: it would breathe its own cold air and ice up twice as often.
![terrain|The test field near Graz from above, with height lines. Cold air gathers in the dark hollows.]
@two
@page
# 2 Water side
Old systems are full of mud, and mud kills plate heat exchangers. Flush the heating system for twenty minutes
in each direction before the unit is connected, and fit the magnetite filter in the return pipe.
## 2.1 Pipes and flow
The smallest inner diameter is 25 mm for the Lumo 6 and 32 mm for the other two. Insulate outdoors with at
least 19 mm of closed-cell foam and protect it from magpies, who like it for their nests. The Lumo 9 needs
1,550 litres an hour, the Lumo 12 needs 2,100. With less, the unit stops while defrosting because the return
gets too cold.
## 2.2 Filling
Fill with tap water of at most 14 degrees of German hardness to a cold pressure of 1.6 bar. Vent at the
highest radiator, then at the unit. Repeat this after a week, when the air that was dissolved has come out.
## 2.3 Frost
Where the power can fail for more than a few hours, fit the two antifreeze valves called Sippa. They open at
three degrees and let the water out before it turns to ice. Glycol is allowed as well, up to a quarter of the
volume, but it costs about six percent of the heating power and has to be tested every second autumn.
## 2.4 Gas separator
If the condenser should ever leak, the separator leads the gas outdoors. Never close or extend its outlet.
@one
@page
# 3 Electrical connection
Only qualified electricians may work under the grey cover. Switch off, lock, and measure before you touch
anything.
| Model | Supply | Fuse | Cable
| Lumo 6 | 230 V, one phase | 16 A, type C | 3 x 2.5 mm2
| Lumo 9 | 400 V, three phases | 3 x 10 A, type C | 5 x 1.5 mm2
| Lumo 12 | 400 V, three phases | 3 x 16 A, type C | 5 x 2.5 mm2
## 3.1 Terminals
Tighten the screws of the mains terminals with a torque of 2.4 Nm and check them again after the first
heating season. Strands get end sleeves. The cable clamp has to hold a pull of ten kilograms.
## 3.2 Signals
The bus to the indoor controller is a shielded pair, up to 60 metres long. Ground the shield on the indoor
side only. A utility that limits the power may use the dry contact K4: closed means free, open means limited.
@page
# 4 Commissioning
- The water has been vented and the filter is clean.
- The protective zone is free and marked on the drawing of the house.
- The crankcase heater has been on for six hours.
Start the test run in the installer menu. It takes 45 minutes and steps through all compressor speeds. Stay
with the unit and listen. Upload the commissioning report within ten days, otherwise the warranty starts with
the date of manufacture. Begin with heating curve number 3: the lower the flow temperature, the better the
performance.
![cop|Coefficient of performance of the Lumo 9 against outdoor temperature, for three flow temperatures.]
@page
# 5 Fault codes
The controller shows the code and keeps the last thirty of them. Codes below 20 clear themselves.
| Code | Meaning | What to do
| E11 | Outdoor sensor reads nonsense | Check plug X7, replace the sensor
| E21 | High pressure | Clean the filter, look for closed valves
| E27 | Fan blocked by ice | Wait for two defrost cycles
| E40 | Gas sensor has triggered | Leave, ventilate, call the service
After E40 the unit stays locked until a technician has measured the air and found it clean.
@page
# 6 Yearly service
Brush the lamellae with a soft brush from top to bottom. High-pressure cleaners bend them and void the
warranty. The buffer battery on the control board is replaced every six years. There are no belts and no oil
to change.
![thermal|A house before its renovation, seen with a thermal camera on a windless evening.]
"""

WARRANTY = """
# Warranty terms
Valid for Lumo, Brunn and Kaskad units sold in Europe from 1 January 2025.
| Part | Years | Condition
| Compressor | 7 | yearly service with record
| Casing against rust | 12 | more than 500 m from the sea
| Controller and sensors | 5 | none
The owner registers the unit on the web within 60 days of the first start. Without registration every period
in the table is shortened to two years, which is what the law asks of us.
@page
# Making a claim
Call the installer, who opens a case with the serial number. From November to March we lend an electric
boiler of nine kilowatts free of charge if the repair takes longer than 36 hours. Damage by curious horses is
not covered.
"""

PEOPLE = """
# Hiring
If you recommend somebody and they are still here after six months, you receive a referral bonus of 1,250
EUR. Members of the management group and the hiring manager are excluded. Three habits matter to us:
- Two conversations at most, and one paid trial day.
- Every candidate gets an answer within eight working days.
- We ask for work, not for puzzles.
## Probation
Probation lasts four months at all sites.[^In Austria the law limits probation to one month.] There is a talk
after six weeks and another one after three months. Your godparent is not asked to judge you.
# Training
Each of us has a yearly training budget. What is not used moves into the next year once.
| Group | Training per year | < | Conference visits
| ^ | Money | Days | ^
| Engineers | 1,800 EUR | 6 | one, or two as a speaker
| Technicians in the field | 2,100 EUR | 9 | none
| Everybody else | 1,200 EUR | 5 | one every second year
![unit|Training in the yard: the outdoor unit that new colleagues take apart and put together again]
# Working from home
Where the job allows it, you may work from home on up to three days a week. We pay once for a desk and a
chair, up to 640 EUR against receipts. They belong to you after three years.
# Pay and leaving
Salaries are reviewed each April. The pay bands are open to everybody; the pay of a single person is not.
Whoever leaves talks to Maren Oduya or to her deputy Ilse Vandersteen, and nothing of the talk is written
down.
| Grade | Typical role | Steps
| G3 | Assembler, service desk | 1 to 6
| G7 | Team lead, principal engineer | 1 to 8
"""

SLIDES = """
Where we stand|We delivered 21,400 machines in 2024, four percent fewer than the year before.|The service \
desk answered 78 percent of calls within two minutes.|Complaints about noise have halved since the new fan.
Market shares in percent
Revenue by region
Roadmap|The Kaskad 120 goes on sale in September 2026, after a field trial in Tromsø.|The Lumo 12 gets a \
larger and slower fan next spring.|The Brunn family moves to propane in 2027 at the earliest.
Pricing rules|One price list for all of Europe.|No rebates for exclusive wholesalers.|Spare parts keep their \
price for two years.
Next steps|Visit every wholesaler once before Easter.|Send the names of pilot customers to Henrik Falkenau.
"""
NOTES = {
    "Market shares in percent": "Poland grew because of two new wholesalers, not because of our advertising.",
    "Pricing rules": "Discounts of more than 6 percent need the written approval of Oskar Lindqvist before "
    "the offer leaves the house.",
}
SHARES = "Country,2022,2023,2024\nSweden,18.9,19.6,20.3\nAustria,9.1,9.8,10.2\nPoland,6.0,8.7,11.4"

BUDGET = """
Budget 2025 by function, thousand EUR
Function|Q1|Q2|Q3|Q4|Remark
Development|3120|3080|2890|3240|Includes the humidity chamber upgrade
Operations|8450|8610|7980|9120|Two extra shifts in autumn
Sales and service|2760|2690|2540|2980|Stand at the trade fair in Milan cancelled
People and culture|610|640|590|720|Leadership course moved to October
Finance and legal|540|520|510|690|New audit firm from the second quarter
"""
CAPEX = """
Investments approved for 2025
Project|Site|Owner|Approved|Amount EUR|In service
Brazing robot for line 2|Ostrava|Radek Hudeček|2024-11-18|418000|2025-09-01
Humidity chamber upgrade|Graz|Annelies Wurzinger|2024-10-07|265500|2025-06-16
Solar roof on the spare-parts hall|Ostrava|Jitka Moravcová|2025-01-13|187250|2025-08-04
Service vans, electric, six|Leeds|Gareth Holroyd|2024-12-02|231600|2025-03-17
New canteen floor|Linköping|Sofia Bergklint|2025-01-20|94800|2025-08-25
"""
HEADCOUNT = """
People by site
Site|End of 2023|End of 2024|Plan 2025
Linköping|214|210|208
Ostrava|281|268|275
Graz|71|74|81
Leeds|47|48|50
Shanghai|39|42|44
"""


def parse(text: str) -> Iterator[tuple[str, Any]]:
    """Yield (kind, payload) blocks; the kinds are h1, h2, p, li, table, img and cmd."""
    kinds = {"# ": "h1", "## ": "h2", "- ": "li", "![": "img", "@": "cmd"}
    para: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.strip().splitlines(), "@end"]:
        mark = next((m for m in kinds if line.startswith(m)), "")
        if rows and not line.startswith("| "):
            yield "table", rows
            rows = []
        if para and (mark or line.startswith("| ")):
            yield "p", " ".join(para)
            para = []
        if line.startswith("| "):
            rows.append(line[2:].split(" | "))
        elif mark:
            yield kinds[mark], line[2:-1].split("|") if mark == "![" else line[len(mark) :]
        else:
            para.append(line)


def png(figure: Figure) -> bytes:
    """Render a matplotlib figure."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    plt.close(figure)
    return out.getvalue()


def draw_unit() -> bytes:
    """A picture of the outdoor unit on a lawn, drawn at double size and scaled down."""
    w, h = 2600, 1700
    ramp = np.linspace(0, 1, h)[:, None]
    sky, lawn = np.array([150, 190, 225]) + 70 * ramp, np.array([70, 120, 60]) + 40 * (ramp - 0.5)
    rows = np.where(ramp < 0.72, sky, lawn)[:, None, :]
    waves = 6 * np.sin(np.arange(w) / 9)[None, :] * np.sin(np.arange(h) / 23)[:, None] * (ramp > 0.72)
    image = Image.fromarray(np.clip(rows + waves[:, :, None], 0, 255).astype("uint8"))
    shadow = Image.new("L", (w, h), 0)
    ImageDraw.Draw(shadow).ellipse((380, 1330, 2330, 1560), fill=150)
    image.paste((25, 40, 25), mask=shadow.filter(ImageFilter.GaussianBlur(40)))
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((480, 300, 2120, 1450), 60, fill=(70, 74, 80), outline=(40, 42, 46), width=8)
    pen.rounded_rectangle((1640, 360, 2060, 1390), 30, fill=(88, 93, 100))
    for y in range(420, 1340, 40):
        pen.rounded_rectangle((1690, y, 2010, y + 14), 7, fill=(55, 58, 63))
    pen.ellipse((590, 390, 1590, 1390), fill=(30, 32, 35))
    for blade in range(5):
        pen.pieslice((640, 440, 1540, 1340), blade * 72, blade * 72 + 44, fill=(105, 110, 118))
    for radius in range(120, 500, 40):
        pen.ellipse((1090 - radius, 890 - radius, 1090 + radius, 890 + radius), outline=(48, 51, 56), width=7)
    pen.ellipse((1000, 800, 1180, 980), fill=(200, 90, 40))
    pen.text((1710, 1290), "TARNHOLM", fill="white", font_size=56)
    out = io.BytesIO()
    image.resize((w // 2, h // 2), Image.Resampling.LANCZOS).save(out, format="PNG")
    return out.getvalue()


def draw_terrain() -> bytes:
    """A shaded height map of gentle hills."""
    x, y = np.meshgrid(np.linspace(0, 9, 1100), np.linspace(0, 6, 740))
    hills = np.sin(x * 1.1 + np.sin(y)) + np.cos(y * 1.3 - x * 0.4) + 0.35 * np.sin(3 * x + 2 * y)
    height = 420 + 18 * (hills + 0.12 * np.sin(9 * x - 5 * y) * np.cos(7 * y))
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    shaded = LightSource(315, 35).shade(height, plt.get_cmap("gist_earth"), vert_exag=2)
    axes.imshow(shaded, extent=(0, 900, 600, 0))
    lines = axes.contour(x * 100, y * 100, height, levels=9, colors="black", linewidths=0.6)
    axes.clabel(lines, fmt="%d m", fontsize=7)
    axes.set(title="Test field: height above sea level", xlabel="metres east", ylabel="metres south")
    return png(figure)


def draw_thermal() -> bytes:
    """A house front as a thermal camera would show it."""
    x, y = np.meshgrid(np.linspace(0, 12, 1200), np.linspace(0, 8, 800))

    def box(x0: float, x1: float, y0: float, y1: float, soft: float = 0.06) -> np.ndarray:
        edges = [(x - x0), (x1 - x), (y - y0), (y1 - y)]
        return np.asarray(np.prod([1 / (1 + np.exp(-np.clip(e / soft, -40, 40))) for e in edges], axis=0))

    roof = 1 / (1 + np.exp(-np.clip((y - 0.8 - 0.5 * abs(x - 6)) / 0.05, -40, 40))) * box(1, 11, 0.5, 3.4)
    wall = box(1.8, 10.2, 3.3, 7.2)
    bricks = 0.25 * np.sin(x * 21) * np.sin(y * 42) + 0.5 * np.sin(x * 1.3 + y)
    field = -9 + 1.6 * y + roof * 6 + wall * (7 + bricks) + box(1.8, 10.2, 3.3, 3.6, 0.12) * 4
    for left, top in [(2.6, 4.2), (4.9, 4.2), (8.0, 4.2), (2.6, 5.8), (8.0, 5.8)]:
        field += box(left, left + 1.3, top, top + 0.9) * (5 + 1.2 * np.sin(left * 7 + top))
        field += box(left - 0.1, left + 1.4, top + 0.95, top + 1.25, 0.1) * 2.5
    field += box(5.4, 6.5, 5.3, 7.2) * 3
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    picture = axes.imshow(field, cmap="inferno")
    figure.colorbar(picture, ax=axes, label="surface temperature in degrees Celsius")
    axes.set_axis_off()
    return png(figure)


def draw_cop() -> bytes:
    """Performance curves; the same numbers for every build."""
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    outside = np.arange(-20, 16)
    for flow in (35, 45, 55):
        axes.plot(outside, 0.47 * (flow + 278) / (flow + 10 - outside), label=f"flow {flow} degrees")
    axes.set(xlabel="outdoor temperature in degrees Celsius", ylabel="coefficient of performance")
    axes.grid(alpha=0.4)
    axes.legend()
    return png(figure)


def draw_map() -> bytes:
    """The evacuation map that hangs beside the lifts in Linköping."""
    figure, axes = plt.subplots(figsize=(11, 7.5), layout="constrained")
    axes.set(xlim=(0, 22), ylim=(0, 15), facecolor="#e4efd9", xticks=[], yticks=[])
    axes.set_title("TARNHOLM LINKÖPING   Evacuation map, ground floor", fontsize=19, weight="bold")
    rooms = {"Hall A\nassembly": (3, 5, 6, 6), "Reception": (9, 5, 3, 3), "Canteen": (9, 8, 3, 3)}
    rooms |= {"Hall B\nservice desk": (12, 5, 5, 6), "Tent": (13, 12, 3, 2)}
    for name, (left, low, w, h) in rooms.items():
        axes.add_patch(Rectangle((left, low), w, h, facecolor="white", edgecolor="black", linewidth=2))
        axes.text(left + w / 2, low + h / 2, name, ha="center", va="center", fontsize=14)
    for x, y, dx, dy in [
        (3.0, 8.0, -1.8, 0.0),
        (10.5, 5.0, 0.0, -2.0),
        (17.0, 8.0, 1.8, 0.0),
        (6.0, 11.0, 0.0, 1.5),
    ]:
        axes.annotate("", (x + dx, y + dy), (x, y), arrowprops={"color": "#00803c", "width": 7})
    for x, y, label in [(10.5, 1.5, "A  Flagpoles"), (18.4, 3.4, "B  Bicycle shed")]:
        style = {"boxstyle": "round", "facecolor": "#00803c"}
        axes.text(x, y, f"Assembly point {label}", color="white", fontsize=13, ha="center", bbox=style)
    axes.text(
        0.5,
        0.6,
        "Fire and gas alarm: dial 112, then 4400. Do not use the lifts.",
        fontsize=13,
        color="#b00020",
    )
    return png(figure)


PICTURES = {"unit": draw_unit, "terrain": draw_terrain, "thermal": draw_thermal, "cop": draw_cop}


class GuideTemplate(rl.BaseDocTemplate):  # type: ignore[misc]
    """A page with a running foot, and an outline entry for each heading."""

    def afterFlowable(self, flowable: rl.Flowable) -> None:
        level = {"Heading1": 0, "Heading2": 1}.get(getattr(getattr(flowable, "style", None), "name", ""))
        if level is not None:
            key = f"heading-{self.page}-{flowable.getPlainText()}"
            self.canv.bookmarkPage(key)
            self.canv.addOutlineEntry(flowable.getPlainText(), key, level)

    def foot(self, canvas: Any, _: Any) -> None:
        canvas.setFont("Helvetica", 8)
        text = f"Tarnholm AB, Linköping    {self.title}    page {canvas.getPageNumber()}"
        canvas.drawString(2 * CM, 1.2 * CM, text)


def build_pdf(path: Path, title: str, text: str) -> None:
    """Set a text as PDF with a page template of one column and one of two."""
    pdf = GuideTemplate(str(path), title=title, author=AUTHOR, invariant=1)
    one = [rl.Frame(2 * CM, 2 * CM, 17 * CM, 25.7 * CM)]
    two = [rl.Frame(x * CM, 14.7 * CM, 8.2 * CM, 13 * CM) for x in (2, 10.8)]
    pdf.addPageTemplates([rl.PageTemplate(n, f, pdf.foot) for n, f in (("one", one), ("two", two))])
    look, story = getSampleStyleSheet(), []
    look["BodyText"].fontSize, look["BodyText"].leading = 11, 15.5
    for kind, data in parse(text):
        if kind == "table":
            cells = [[rl.Paragraph(cell, look["BodyText"]) for cell in row] for row in data]
            ruled = [("GRID", (0, 0), (-1, -1), 0.6, "black"), ("VALIGN", (0, 0), (-1, -1), "TOP")]
            ruled += [("BACKGROUND", (0, 0), (-1, 0), "lightgrey")]
            longest = [max(len(cell) for cell in column) + 4 for column in zip(*data, strict=True)]
            widths = [17 * CM * length / sum(longest) for length in longest]
            story += [rl.Table(cells, widths, style=ruled, spaceBefore=6, spaceAfter=10)]
        elif kind == "img":
            image = rl.Image(io.BytesIO(PICTURES[data[0]]()), 15 * CM, 9.5 * CM, kind="proportional")
            story += [rl.Spacer(1, 8), image, rl.Paragraph(data[1], look["Italic"]), rl.Spacer(1, 8)]
        elif kind == "cmd":
            story += {"page": [rl.PageBreak()], "end": []}.get(data, [rl.NextPageTemplate(data)])
        else:
            style = {"h1": "Heading1", "h2": "Heading2"}.get(kind, "BodyText")
            story.append(rl.Paragraph(data, look[style], bulletText="•" if kind == "li" else None))
    pdf.build(story)


def build_docx(path: Path) -> None:
    """The people guide: headings, items, tables with merged cells, a picture with alt text, a footnote."""
    doc = docx.Document()
    doc.core_properties.author, doc.core_properties.title = AUTHOR, "People guide"
    doc.add_heading("People guide", 0)
    for kind, data in parse(PEOPLE):
        if kind == "table":
            table = doc.add_table(len(data), len(data[0]), style="Table Grid")
            for r, row in enumerate(data):
                for c, cell in enumerate(row):
                    if cell in "<^":
                        table.cell(r - (cell == "^"), c - (cell == "<")).merge(table.cell(r, c))
                    else:
                        table.cell(r, c).text = cell
        elif kind == "img":
            picture = doc.add_picture(io.BytesIO(PICTURES[data[0]]()), width=docx.shared.Cm(15))
            picture._inline.docPr.set("descr", data[1])
        elif kind in ("h1", "h2"):
            doc.add_heading(data, int(kind[1]))
        elif kind in ("p", "li"):
            before, _, rest = data.partition("[^")
            note, _, after = rest.partition("]")
            para = doc.add_paragraph(before, style="List Bullet" if kind == "li" else None)
            if note:
                add_footnote(doc, para, note)
                para.add_run(after)
    doc.save(str(path))


def add_footnote(doc: Any, para: Any, note: str) -> None:
    """Add the footnotes part with this note; python-docx has no call for it, so one note a document."""
    ns = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ends = '<w:footnote w:type="{0}" w:id="{1}"><w:p><w:r><w:{0}/></w:r></w:p></w:footnote>'
    body = ends.format("separator", -1) + ends.format("continuationSeparator", 0)
    text = f"<w:r><w:footnoteRef/></w:r><w:r><w:t> {note}</w:t></w:r>"
    body += f'<w:footnote w:id="1"><w:p>{text}</w:p></w:footnote>'
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    xml = f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><w:footnotes {ns}>{body}</w:footnotes>'
    part = Part(PackURI("/word/footnotes.xml"), kind, xml.encode(), doc.part.package)
    doc.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    raised = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    para._p.append(parse_xml(f'<w:r {ns}>{raised}<w:footnoteReference w:id="1"/></w:r>'))


def build_pptx(path: Path) -> None:
    """The sales kick-off: items, a table, a native chart, pictures and speaker notes."""
    deck = pptx.Presentation()
    deck.core_properties.author, deck.core_properties.title = AUTHOR, "Sales kick-off 2025"
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text = "Sales kick-off 2025"
    first.placeholders[1].text = "Norrköping, 23 January 2025\nOskar Lindqvist, sales and service"
    inch = pptx.util.Inches
    for line in SLIDES.strip().splitlines():
        title, *items = line.split("|")
        slide = deck.slides.add_slide(deck.slide_layouts[1 if items else 5])
        slide.shapes.title.text = title
        if items:
            slide.placeholders[1].text = "\n".join(items)
        if title in NOTES:
            slide.notes_slide.notes_text_frame.text = NOTES[title]
        if title in ("Where we stand", "Roadmap"):
            box = slide.placeholders[1]
            box.left, box.top, box.width, box.height = inch(0.5), inch(1.6), inch(9), inch(2.9)
            for paragraph in box.text_frame.paragraphs:
                paragraph.font.size = pptx.util.Pt(22)
            picture = PICTURES["unit" if title == "Roadmap" else "terrain"]()
            slide.shapes.add_picture(io.BytesIO(picture), inch(3), inch(4.6), height=inch(2.7))
        elif title.startswith("Market"):
            rows = [row.split(",") for row in SHARES.splitlines()]
            table = slide.shapes.add_table(4, 4, inch(1), inch(2), inch(8), inch(2.5)).table
            for r, c in np.ndindex(4, 4):
                table.cell(r, c).text = rows[r][c]
        elif title.startswith("Revenue"):
            chart: Any = CategoryChartData()  # type: ignore[no-untyped-call]
            chart.categories = ["Nordics", "Central Europe", "British Isles", "Asia"]
            chart.add_series("2023, million EUR", (64.0, 55.1, 20.9, 9.8))
            chart.add_series("2024, million EUR", (61.2, 52.9, 21.8, 12.7))
            place = (inch(1), inch(1.8), inch(8), inch(5))
            slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, chart).chart.has_legend = True
    deck.save(str(path))


def build_xlsx(path: Path) -> None:
    """The budget: three sheets, each with a merged title, a header row, numbers and dates."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    book.properties.creator = AUTHOR
    for name, text in {"Budget": BUDGET, "Capex": CAPEX, "Headcount": HEADCOUNT}.items():
        rows = [line.split("|") for line in text.strip().splitlines()]
        sheet = book.create_sheet(name)
        sheet.append([f"Tarnholm AB: {rows[0][0]}"])
        sheet.merge_cells(start_row=1, end_row=1, start_column=1, end_column=len(rows[1]))
        sheet["A1"].font, sheet["A1"].alignment = Font(bold=True, size=14), Alignment(horizontal="center")
        for row in rows[1:]:
            dates = [dt.date.fromisoformat(v) if re.fullmatch(r"\d{4}-\d\d-\d\d", v) else v for v in row]
            sheet.append([int(v) if isinstance(v, str) and v.isdigit() else v for v in dates])
        for column in "ABCDEF":
            sheet.column_dimensions[column].width = 20
    book.save(path)


def normalise(data: bytes) -> bytes:
    """Rewrite an Office package with fixed times, also in the workbook inside a chart."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            blob = normalise(old.read(name)) if name.endswith(".xlsx") else old.read(name)
            if name == "docProps/core.xml":
                blob = re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+Z", f"{STAMP:%Y-%m-%dT%H:%M:%SZ}".encode(), blob)
            new.writestr(zipfile.ZipInfo(name, STAMP.timetuple()[:6]), blob, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def main() -> None:
    """Write all binary files."""
    plt.switch_backend("Agg")
    build_pdf(HERE / "products/lumo-installation-guide.pdf", "Lumo installation guide", GUIDE)
    build_pdf(HERE / "products/warranty-terms.pdf", "Warranty terms", WARRANTY)
    office = {"policies/people-guide.docx": build_docx, "products/sales-kickoff-2025.pptx": build_pptx}
    for name, build in (office | {"finance/budget-2025.xlsx": build_xlsx}).items():
        build(HERE / name)
        (HERE / name).write_bytes(normalise((HERE / name).read_bytes()))
    (HERE / "offices/linkoping-evacuation-map.png").write_bytes(draw_map())


if __name__ == "__main__":
    main()
