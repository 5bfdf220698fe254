"""Words that several worlds are made of."""

from collections.abc import Sequence

# five letters, all small
FIVE: Sequence[str] = """
about alarm angle apple arena beach begin birth blame board brain bread brick bring brown build
cabin candy chain chair cheap chest chief child claim clean clear climb clock cloth cloud coach
coast count cover craft crane cream crime cross crowd dance depth dirty doubt draft dream dress
drink drive eager earth empty enjoy entry equal error event exact faith favor fence field fight
final flame flesh float floor fruit ghost giant glass globe grace grain grand grape grass green
group guard guest guide habit happy heart honey horse hotel house human ideal image index judge
juice knife label labor large laugh layer learn lemon level light limit local lucky lunch magic
maker march match metal minor model money month motor mount mouse mouth movie music nerve night
noise north novel ocean order other owner paint panel paper party peace pearl phone photo piano
piece pilot pitch place plane plant plate point pound power press price pride print prize proof
queen quick quiet radio raise range rapid ratio reach ready river robot rough round royal scale
scene scope score sense shape share sheep sheet shelf shirt shock shore short sight skill sleep
slice slope smile smoke snake solid sound south space speed spice spoon sport staff stage stair
stamp state steam steel stone store storm story sugar sunny sweet table taste teeth theme thick
tiger title tower track trade train treat trial truck trust truth uncle unity urban usual value
video visit voice waste watch water wheel white whole woman world worry worth wound write wrong
yield young youth
""".split()

# first names
NAMES: Sequence[str] = """
Ada Alan Barbara Carl Chandra Daniel Donald Edith Edsger Emmy Enrico Ernest Evelyn Felix Frances
Fritz Grace Hans Hedy Henri Ida Isaac James Jean Joan Johannes Joseph Karen Katherine Kurt
Leonhard Leslie Lise Louis Margaret Maria Marie Mary Max Maryam Nikola Niels Norbert Olga Otto
Pafnuty Pierre Rachel Radia Richard Robert Rosalind Rudolf Sofia Srinivasa Stephen Tim Tycho
Ursula Vera Vint Walter Werner Wolfgang Yoshua Yuri
""".split()

# first names that go with LAST
FIRST = """
Ana Boris Clara David Elena Farid Greta Hugo Irene Jonas Karin Lars Mina Nils Olga Pavel
""".split()

# family names
LAST = """
Adler Brandt Castro Dupont Ekman Fischer Garcia Holm Ibsen Jansen Keller Lopez Moreau Novak
""".split()
