"""Build the binary files of the demo corpus in ``examples/handbook``.

Needs: reportlab, matplotlib, python-docx, python-pptx, openpyxl, pillow (and numpy, which matplotlib brings).
Run ``python examples/build_handbook.py``; rerunning with the same package versions gives the same bytes.
The company and all facts are invented. The text files of the corpus are kept as they are, by hand.

Texts use a small markup: ``# `` and ``## `` headings, ``- `` items, ``| a | b`` table rows (the first one is the
header; in Word ``<`` and ``^`` merge a cell with the one to its left or above), ``![picture|caption]``,
``@page``, ``@two`` and ``@one`` (column layout of the following page), and ``[^note]`` for a Word footnote.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docx
import matplotlib
import numpy as np
import openpyxl
import pptx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.shared import Cm
from openpyxl.styles import Alignment, Font
from PIL import Image, ImageDraw, ImageFilter
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.platypus import BaseDocTemplate, Frame, NextPageTemplate, PageBreak, PageTemplate, Paragraph
from reportlab.platypus import Image as PdfImage
from reportlab.platypus import Spacer, Table

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).resolve().parent / "handbook"
STAMP = dt.datetime(2025, 2, 3, 9, 0, 0)
AUTHOR = "Tarnholm documentation guild"

GUIDE = """
# Lumo installation guide
Document LG-0417, revision F. For the models Lumo 6, Lumo 9 and Lumo 12 with propane (R290).
![unit|The Lumo outdoor unit with its two water pipes leaving at the back.]
This guide is written for trained installers. The refrigerant circuit is closed and filled in the factory; nobody
opens it on site. Everything you connect is water and electricity. Read the whole guide once before you unpack
the unit, then keep it on the phone for looking things up. Questions go to the installer line in Linköping.
@page
# 1 Choosing the place
## 1.1 Protective zone
Propane is heavier than air and can burn. Around the unit there is a protective zone of 1.3 m on every side, from
the ground up to the top edge of the casing. No window, door, light shaft, floor drain, socket or letter box may
lie inside this zone. A wall without openings may stand in it.
## 1.2 Distances
| Side of the unit | Shortest distance to a wall | Remark
| Back, air inlet | 0.30 m | 0.45 m where snow drifts
| Front, air outlet | 2.00 m | never towards a footpath
| Left | 0.50 m | room for the service cover
| Right | 0.25 m |
## 1.3 Sound
Sound travels upwards from a corner. A place in front of one hard wall adds three decibels, a corner adds six.
Draw the bedroom windows of the neighbours into the plan first, and only then the pipes.
![terrain|Cold air drains downhill: on the test field in Styria the hollow in the middle is coldest.]
@page
# 2 Foundation and lifting
The unit stands on two strips of concrete with a frost-free bed of gravel between them. The condensate, up to 14
litres in a night of heavy icing, must be able to seep away in the gravel bed.
## 2.1 Weights
| Model | Net weight | With pallet | Carried by
| Lumo 6 | 118 kg | 136 kg | four people with straps
| Lumo 9 | 137 kg | 157 kg | lifting trolley
| Lumo 12 | 164 kg | 187 kg | lifting trolley or crane
## 2.2 Carrying
- Keep the unit upright. If it was tilted by more than 45 degrees, let it stand for a whole day before use.
- Lift at the steel feet and never at the fan grille.
- Leave the film on the lamellae until the last dusty job is done.
## 2.3 Fixing
Use the four M10 anchors from the bag. The rubber feet are compressed by about a third when they carry the right
load. If they are not, the strip is not level, and the fan will hum at one certain speed for ever.
@two
@page
# 3 Water side
Old systems are full of mud, and mud kills plate heat exchangers. Flush the heating system for twenty minutes in
each direction before the unit is connected, and fit the magnetite filter in the return pipe.
## 3.1 Pipes
The smallest inner diameter is 25 mm for the Lumo 6 and 32 mm for the other two. Insulate outdoors with at least
19 mm of closed-cell foam and protect it from magpies, who like it for their nests.
## 3.2 Flow
The Lumo 9 needs 1,550 litres an hour, the Lumo 12 needs 2,100. With less, the unit still runs, but it switches
off during defrosting because the return gets too cold.
## 3.3 Filling
Fill with tap water of at most 14 degrees of German hardness to a cold pressure of 1.6 bar. Vent at the highest
radiator, then at the unit. Repeat this after a week.
## 3.4 Frost
Where the power can fail for more than a few hours, fit the two antifreeze valves called Sippa. They open at three
degrees and let the water out before it turns to ice. Glycol is allowed as well, up to a quarter of the volume, but
costs about six percent of the heating power.
## 3.5 Separator
The unit contains a gas separator. If the condenser should ever leak, the separator leads the gas outdoors, which
is why its outlet must not be closed or extended.
@one
@page
# 4 Electrical connection
Only qualified electricians may work under the grey cover. Switch off, lock, and measure before you touch anything.
## 4.1 Fuses and cables
| Model | Supply | Fuse | Cable | Residual current device
| Lumo 6 | 230 V, one phase | 16 A, type C | 3 x 2.5 mm2 | type A, 30 mA
| Lumo 9 | 400 V, three phases | 3 x 10 A, type C | 5 x 1.5 mm2 | type B, 30 mA
| Lumo 12 | 400 V, three phases | 3 x 16 A, type C | 5 x 2.5 mm2 | type B, 30 mA
## 4.2 Terminals
Tighten the screws of the mains terminals with a torque of 2.4 Nm and check them again after the first heating
season. Strands get end sleeves. The cable clamp has to hold a pull of ten kilograms.
## 4.3 Signals
The bus to the indoor controller is a shielded pair, up to 60 metres long. Ground the shield on the indoor side
only. A utility that wants to limit the power may use the dry contact K4: closed means free, open means limited.
@page
# 5 Commissioning
## 5.1 Before the first start
- The water has been vented and the filter is clean.
- The protective zone is free and marked on the drawing of the house.
- The crankcase heater has been on for six hours.
## 5.2 Test run
Start the test run in the installer menu. It takes 45 minutes and steps through all compressor speeds. Stay with
the unit, listen, and feel the pipes. Upload the commissioning report within ten days, otherwise the warranty starts
with the date of manufacture.
## 5.3 Heating curve
Begin with the low curve number 3 and let the customer live with it for a week. The lower the flow temperature, the
better the coefficient of performance, as the chart shows.
![cop|Coefficient of performance of the Lumo 9 against outdoor temperature, for three flow temperatures.]
@page
# 6 Fault codes
The controller shows the code and keeps the last thirty of them. Codes below 20 clear themselves.
| Code | Meaning | What to do
| E11 | Outdoor sensor reads nonsense | Check plug X7, replace the sensor
| E14 | Return too cold while defrosting | Raise the flow, open more radiators
| E21 | High pressure | Clean the filter, look for closed valves
| E27 | Fan blocked by ice | Wait for two defrost cycles
| E33 | Phase order wrong | Swap two phases at the supply
| E40 | Gas sensor has triggered | Leave, ventilate, call the service
After E40 the unit stays locked. The lock is removed by a technician who has measured the air and found it clean.
Write the code and the outdoor temperature on the card inside the cover; the next technician will be grateful.
@page
# 7 Yearly service
## 7.1 Cleaning
Brush the lamellae with a soft brush from top to bottom and rinse with a garden hose. High-pressure cleaners bend
the lamellae and void the warranty. Take the leaves out of the drain pan.
## 7.2 Wear
The buffer battery on the control board is replaced every six years. Anode, belts and oil do not exist in a Lumo, so
whoever sells a change of them is selling nothing.
## 7.3 Looking with a thermal camera
A house that loses its heat through one wall does not need a larger heat pump. Offer the customer a picture taken on
a cold and windless evening.
![thermal|Thermal picture of a house before the renovation: windows and the strip under the eaves shine.]
"""

WARRANTY = """
# Warranty terms
Valid for units sold from 1 January 2025 in the European Union, Norway, Switzerland and the United Kingdom.
## What is covered
| Part | Years | Condition
| Compressor | 7 | yearly service with record
| Casing against rust | 12 | more than 500 m from the sea
| Controller and sensors | 5 |
| Circulation pump | 3 |
Labour is covered for the first three years, travel for the first two.
## Registration
The owner registers the unit on the web within 60 days of the first start. Without registration every period in the
table is shortened to two years, which is what the law asks of us.
@page
# Making a claim
Call the installer first. The installer reads the fault memory and opens a case with the serial number. We answer
within one working day in winter and three in summer.
## When the house is cold
From November to March we lend an electric boiler of nine kilowatts free of charge if the repair takes longer than
36 hours. The installer collects it from the nearest depot and brings it back.
## What is not covered
- Damage by frost when the antifreeze valves were left out.
- Lightning, floods and curious horses.
- Units whose refrigerant circuit was opened by somebody without our certificate.
"""

PEOPLE = """
# People guide
This guide explains how we hire, train and part. It is kept by people and culture in Linköping.
# Hiring
## Finding people
If you recommend somebody and they are still here after six months, you receive a referral bonus of 1,250 EUR. Members
of the management group and the hiring manager are excluded.
## Interviews
- Two conversations, at most, and one paid trial day.
- Every candidate gets an answer within eight working days.
- We ask for work, not for puzzles.
# Probation
Probation lasts four months[^In Austria the law limits probation to one month; there the goals are kept without it.] at all
sites. There is a talk after six weeks and another one after three months. Your godparent is not asked to judge you.
# Training
Each of us has a yearly training budget. What is not used moves into the next year once.
| Group | Training per year | < | Conference visits
| ^ | Money | Days | ^
| Engineers | 1,800 EUR | 6 | one, or two as a speaker
| Technicians in the field | 2,100 EUR | 9 | none
| Factory | 950 EUR | 5 | none
| Everybody else | 1,200 EUR | 5 | one every second year
# Working from home
## How much
Where the job allows it, you may work from home on up to three days a week. Wednesday is the day on which
everybody is in, except in Shanghai, which has its own arrangement.
## Equipment
We pay once for a desk and a chair, up to 640 EUR against receipts. They belong to you after three years.
![desk|A good place to work: light from the side, screen at eye level.]
# Pay
Salaries are reviewed each April. The pay bands of all grades are open to everybody; the pay of a single person is not.
| Grade | Typical role | Steps
| G3 | Assembler, service desk | 1 to 6
| G5 | Engineer, buyer | 1 to 8
| G7 | Team lead, principal engineer | 1 to 8
# Leaving
Whoever leaves talks to Maren Oduya or to her deputy Ilse Vandersteen. The talk is not written down unless you ask for it.
"""

Blocks = Iterator[tuple[str, Any]]


def parse(text: str) -> Blocks:
    """Yield (kind, payload) for h1, h2, p, li, table, img and cmd."""
    para: list[str] = []
    rows: list[list[str]] = []
    marks = {"# ": "h1", "## ": "h2", "- ": "li", "@": "cmd"}
    for line in [*text.strip().splitlines(), "@end"]:
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line[2:].split(" |")])
            continue
        mark = next((m for m in marks if line.startswith(m)), None)
        if rows:
            yield "table", rows
            rows = []
        if mark is None and not line.startswith("!["):
            para.append(line)
            continue
        if para:
            yield "p", " ".join(para)
            para = []
        if mark is None:
            yield "img", tuple(line[2:-1].split("|"))
        else:
            yield marks[mark], line[len(mark) :]
