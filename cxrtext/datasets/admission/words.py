"""Words of views and body parts, in the languages that hospitals write descriptions in.

English, German, French, Spanish, Italian, Dutch and Portuguese; without accents, in capitals.
A word that ends in ``*`` stands for all that begin so.
"""

import re
import unicodedata

_NOT_LETTERS = re.compile(r"[^A-Z]+")


def plain_words(text: str) -> str:
    """A text in capitals without accents, its words divided by single spaces."""
    folded = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    letters = "".join(c for c in folded if not unicodedata.combining(c))
    return _NOT_LETTERS.sub(" ", letters.upper()).strip()


class Words:
    """A set of words and beginnings of words."""

    def __init__(self, words: str) -> None:
        listed = words.split()
        self._whole = frozenset(word for word in listed if not word.endswith("*"))
        self._beginnings = tuple(word[:-1] for word in listed if word.endswith("*"))

    def within(self, words: str) -> bool:
        """Whether one of them stands in a text made by `plain_words`."""
        return any(
            word in self._whole or word.startswith(self._beginnings) for word in words.split()
        )


LATERALS = Words(
    "LL RL LAT LATERAL LLAT RLAT XTABLE SIDE SIDEVIEW LATERALE LATERALES LATERAUX LATERALEN "
    "SEITLICH SEITLICHE SEITL SEITE SEITENAUFNAHME SEITBILD PROFIL PROFILO PERFIL "
    "LATERAAL LATERALIS DWARS DWARSE ZIJDELINGS ZIJDELINGSE ZIJOPNAME"
)
OBLIQUES = Words(
    "LAO RAO LPO RPO RLO LLO OBL OBLIQU* OBLICU* OBLIK* SCHRAG* SCHRAEG* SCHUIN* AXIAL AXIALE "
    "LORDOT* APICAL APIKAL"
)
DECUBITUS = Words("LLD RLD DECUB DECUBIT* SEITENLAGE LINKSSEITENLAGE RECHTSSEITENLAGE")
LYING = re.compile(r"DECUBIT\w* (SUPIN|DORSAL)")
"""A patient who lies on the back: "decubito supino", "décubitus dorsal"."""
FRONTALS = Words("FRONTAL FRONTALE FRONTAAL FRONTALES FACE FRENTE")
POSTERO_ANTERIOR = re.compile(
    r"\bP ?A\b|\bPOSTERO ?ANTERIOR\w*|\bDORSO ?VENTRAL\w*|\bACHTER ?VOORWAARTS\w*"
)
ANTERO_POSTERIOR = re.compile(
    r"\bA ?P\b|\bANTERO ?POSTERIOR\w*|\bVENTRO ?DORSAL\w*|\bVOOR ?ACHTERWAARTS\w*"
)
LATERO_LATERAL = re.compile(r"\bL L\b|\bLATERO ?LATERAL\w*")
SWIMMERS = re.compile(r"SWIMMER|SCHWIMMER")

CHEST = Words(
    "CHEST* THORA* TORAC* TORAX* LUNG* PULM PULMO* PULMA* POUMON* POLMON* LONGEN LONGFOTO* "
    "CXR THX HEART MEDIASTIN*"
)
"""The allow-list: an object whose body part is none of these does not enter."""

NOT_SAID = frozenset(
    {"", "UNKNOWN", "UNSPECIFIED", "OTHER", "NONE", "NA", "N A", "ANY", "DEFAULT", "STANDARD"}
    | {"MISC", "UNDEFINED", "NOT SPECIFIED", "PORTABLE", "GENERAL", "X", "XX", "XXX"}
)
"""What stands in BodyPartExamined where nothing is meant."""

PARTS: dict[str, Words] = {
    part: Words(words)
    for part, words in {
        "abdomen": "ABDOM* ABD ADDOM* BAUCH* BUIK* KUB CHESTABD* OESOPHAG* ESOPHAG*",
        "pelvis": "PELVI* BECKEN* BASSIN BACINO BEKKEN* BACIA PELVICO ABDOMENPELVIS ISG",
        "hip": "HIP HIPS HUFT* HUEFT* HANCHE* CADERA* ANCA ANCHE HEUP* QUADRIL COXA COXAL",
        "knee": "KNEE* KNIE* GENOU* RODILLA* GINOCCHI* JOELHO* PATELLA* ROTULA*",
        "hand": "HAND HANDS HANDE HAENDE MAIN MAINS MANO MANI MANOS MAO MAOS CARPUS CARPAL*",
        "wrist": "WRIST* HANDGELENK* POIGNET* MUNECA* POLSO POLSI POLS PUNHO*",
        "finger": "FINGER* DOIGT* DEDO* DITO DITA VINGER* THUMB* DAUMEN* POUCE PULGAR POLLICE DUIM",
        "foot": "FOOT FEET FUSS* FUESSE PIED* PIE PIES PIEDE PIEDI VOET* HEEL* CALCANE* FERSE*",
        "toe": "TOE TOES ZEHE* ORTEIL* TEEN TENEN GROSSZEHE*",
        "ankle": "ANKLE* SPRUNGGELENK* OSG USG CHEVILLE* TOBILLO* CAVIGLIA ENKEL* TORNOZELO*",
        "elbow": "ELBOW* ELLBOGEN* ELLENBOGEN* COUDE* CODO CODOS GOMITO ELLEBOOG COTOVELO*",
        "shoulder": "SHOULDER* SCHULTER* EPAULE* HOMBRO* SPALLA SPALLE SCHOUDER* OMBRO* SCAPUL* "
        "SKAPULA*",
        "clavicle": "CLAVIC* KLAVIK* CLAVIKULA SCHLUSSELBEIN* SCHLUESSELBEIN* SLEUTELBEEN",
        "ribs": "RIB RIBS RIPPE* COTES COSTILLA* COSTE COSTELA* RIBBEN STERN* BRUSTBEIN",
        "skull": "SKULL* HEAD SCHADEL* SCHAEDEL* CRANE* CRANIO* CRANIU* SCHEDEL* SINUS* NNH KOPF* "
        "ORBIT* FACIAL NASAL NOSE NASE TETE CABEZA TESTA HOOFD CABECA ZYGOMA",
        "jaw": "JAW KIEFER* MANDIB* MAXILL* OPG DENTAL ZAHN* TMJ PANOREX TEETH",
        "neck": "NECK HALS HALSWEICHTEIL* COU CUELLO COLLO NEK PESCOCO LARYNX",
        "spine": "SPINE* CSPINE TSPINE LSPINE SSPINE HWS BWS LWS WIRBEL* VERTEB* RACHIS COLUMNA "
        "COLUNA COLONNA WERVEL* LUMB* LOMB* CERVIC* SACR* COCCY* STEISS* SKOLIO* SCOLIO* ESCOLIO* "
        "ESPINHA THORACOLUMB* CWK LWK TWK",
        "leg": "LEG LEGS FEMUR* FEMORAL OBERSCHENKEL* UNTERSCHENKEL* TIBIA* FIBULA* BEIN BEINE "
        "JAMBE* PIERNA* GAMBA* BEEN BENEN PERNA* CUISSE* THIGH* MUSLO* COSCIA COXAS EXTREMIT*",
        "arm": "ARM ARMS FOREARM* HUMER* OBERARM* UNTERARM* BRAS BRAZO* BRACCI* BRACO* RADIUS ULNA "
        "AVANTBRAS ANTEBRA* AVAMBRACCIO ONDERARM BOVENARM UPPERARM",
        "breast": "BREAST* MAMMA* MAMMO* SEIN SEINS MAMA MAMAS BORST BRUSTE",
    }.items()
}
"""Other parts of the body, by their names."""

CHEST_CODES = frozenset(
    {"T-D3000", "51185008", "302551006", "816094009", "43799004", "T-28000", "39607008"}
    | {"T-D3300", "72410000", "T-32000", "80891009"}
)
"""Codes (SRT and SCT) of the chest, the lungs, the mediastinum and the heart."""

VIEW_CODES = {
    **dict.fromkeys(("R-10202", "399033003"), "frontal"),
    **dict.fromkeys(("R-10206", "399348003"), "antero-posterior"),
    **dict.fromkeys(("R-10214", "272479007"), "postero-anterior"),
    **dict.fromkeys(("R-10232", "R-10236", "399198007", "399173006", "399067008"), "lateral"),
    **dict.fromkeys(("399260004", "399352003", "30730003"), "lateral"),
    **dict.fromkeys(("399182000", "399135007", "399356000", "399006002", "399038007"), "oblique"),
    **dict.fromkeys(("399061009",), "axial"),
}
"""Codes of CID 4010 (SRT and SCT), for where their meaning is left out."""
