"""Words of views and body parts, in the languages that hospitals write descriptions in.

English, German, French, Spanish, Italian, Dutch and Portuguese; without accents, in capitals.
Before and behind a ``*`` a word may go on.  Japanese and Chinese terms are read as English ones.
"""

import re
import unicodedata

_NOT_LETTERS = re.compile(r"[^A-Z]+")


_TERMS = {
    term: english
    for english, terms in {
        "": "手術 手术 不足 胸水",
        "chest": "胸部 胸腔 胸片 胸 肺 心臓 心脏",
        "apical": "肺尖",
        "spine": "胸椎 胸腰椎 頸椎 颈椎 頚椎 腰椎 脊椎 脊柱 仙骨 骶 尾骨",
        "ribs": "肋骨 胸骨",
        "clavicle": "鎖骨 锁骨",
        "abdomen": "腹",
        "prone": "腹臥位",
        "pelvis": "骨盤 骨盆",
        "hip": "股関節 髋 髖",
        "knee": "膝",
        "ankle": "足関節 踝",
        "foot": "足 跟骨",
        "wrist": "手関節 腕関節 手腕 腕关节",
        "hand": "手",
        "elbow": "肘",
        "shoulder": "肩",
        "arm": "上腕 前腕 上肢 上臂 前臂 肱骨",
        "leg": "大腿 下腿 小腿 下肢 股骨 胫",
        "skull": "頭部 頭蓋 头颅 头部 頭顱 副鼻腔 鼻窦 鼻竇",
        "jaw": "顎 颌 頜",
        "neck": "頸部 颈部 頚部",
        "breast": "乳房 乳腺",
        "frontal": "正面 正位",
        "lateral": "側面 侧面 側位 侧位",
        "postero anterior": "後前 后前",
        "antero posterior": "前後 前后",
        "oblique": "斜位",
        "axial": "軸位 轴位",
        "decubitus": "側臥位 侧卧位 側臥 侧卧",
    }.items()
    for term in terms.split()
}
_TERM = re.compile("|".join(sorted(_TERMS, key=len, reverse=True)))


def plain_words(text: str) -> str:
    """A text in capitals without accents, its words divided by single spaces."""
    if not text.isascii():
        text = _TERM.sub(lambda term: f" {_TERMS[term[0]]} ", text.replace("ß", "ss"))
    folded = unicodedata.normalize("NFKD", text)
    letters = "".join(c for c in folded if not unicodedata.combining(c))
    return _NOT_LETTERS.sub(" ", letters.upper()).strip()


class Words:
    """A set of words, of their beginnings, ends and middles."""

    def __init__(self, words: str) -> None:
        listed = words.split()
        self._whole = frozenset(word for word in listed if "*" not in word)
        self._beginnings = tuple(w[:-1] for w in listed if w[0] != "*" and w[-1] == "*")
        self._ends = tuple(w[1:] for w in listed if w[0] == "*" and w[-1] != "*")
        self._middles = tuple(w[1:-1] for w in listed if w[0] == "*" and w[-1] == "*")

    def within(self, words: str) -> bool:
        """Whether one of them stands in a text made by `plain_words`."""
        return any(
            word in self._whole
            or word.startswith(self._beginnings)
            or word.endswith(self._ends)
            or any(middle in word for middle in self._middles)
            for word in words.split()
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
LYING_ALONE = re.compile(
    r"^(?!.*\b(?:LAT\w*|R|L|D|S|I|DX|SX|DER\w*|IZQ\w*|DESTR\w*|SINIST\w*|DIR\w*|ESQ\w*|PRON\w*)\b)"
    r"(?=.*\bDECUBITO\b).*\bA ?P\b"
)
"""The same where no side is named: "AP decubito" is a bedside film in Spain, Italy and Brazil."""
BED_SIDE = re.compile(r"\bBED SIDE\b")
FRONTALS = Words("FRONTAL FRONTALE FRONTAAL FRONTALES FACE FRENTE")
POSTERO_ANTERIOR = re.compile(
    r"\bP ?A\b|\bPOSTER(?:O|IOR)(?: TO)? ?ANTERIOR\w*|\bDORSO ?VENTRAL\w*|\bACHTER ?VOORWAARTS\w*"
)
ANTERO_POSTERIOR = re.compile(
    r"\bA ?P\b|\bANTER(?:O|IOR)(?: TO)? ?POSTERIOR\w*|\bVENTRO ?DORSAL\w*|\bVOOR ?ACHTERWAARTS\w*"
)
LATERO_LATERAL = re.compile(r"\bL L\b|\bLATERO ?LATERAL\w*")
SWIMMERS = re.compile(r"SWIMMER|SCHWIMMER")

CHEST = Words(
    "CHEST* THORA* TORAC* TORAX* *CHEST *THORAX *TORAX LUNG LUNGS LUNGE LUNGEN* LUNGOR PULM PULMO* "
    "PULMA* POUMON* POLMON* LONGEN LONGFOTO* *CXR THX HEART HERZ* COEUR* CUORE CORAZON CORACAO "
    "MEDIASTIN* BRUSTKORB*"
)
"""The allow-list: an object whose body part is none of these does not enter."""

NOT_SAID = frozenset(
    {"", "UNKNOWN", "UNSPECIFIED", "OTHER", "NONE", "NA", "N A", "ANY", "DEFAULT", "STANDARD"}
    | {"MOBILE", "BEDSIDE", "BED SIDE", "UNK"}
    | {"MISC", "UNDEFINED", "NOT SPECIFIED", "PORTABLE", "GENERAL", "X", "XX", "XXX"}
)
"""What stands in BodyPartExamined where nothing is meant."""

POSTURES = re.compile(
    r"\bARMS? (?:UP|DOWN|RAISED|OVERHEAD|ABOVE)\b|\bHEAD (?:UP|DOWN|OF BED)\b"
    r"|\b(?:DE|EN) PIE\b(?! (?:DER|IZQ))|\bMAIN (?:CAMPUS|HOSPITAL|SITE|BUILDING)\b"
)
"""What names a part of the body and none that was examined: "de pie" is "standing" in Spanish."""

PARTS: dict[str, Words] = {
    part: Words(words)
    for part, words in {
        "abdomen": "ABDOM* ABD ADDOM* BAUCH* BUIK* KUB CHESTABD* OESOPHAG* ESOPHAG*",
        "pelvis": "PELVI* BECKEN* BACKEN BASSIN BACINO BEKKEN* BACIA PELVICO ABDOMENPELVIS ISG",
        "hip": "HIP HIPS HUFT* HUEFT* HANCHE* CADERA* ANCA ANCHE HEUP* QUADRIL COXA COXAL",
        "knee": "KNEE* KNIE* GENOU* RODILLA* GINOCCHI* JOELHO* PATELLA* ROTULA*",
        "hand": "HAND HANDS HANDE HAENDE MAIN MAINS MANO MANI MANOS MAO MAOS CARPUS CARPAL* "
        "MITTELHAND*",
        "wrist": "WRIST* HANDGELENK* POIGNET* MUNECA* POLSO POLSI POLS PUNHO*",
        "finger": "FINGER* DOIGT* DEDO* DITO DITA VINGER* THUMB* DAUMEN* POUCE PULGAR POLLICE DUIM",
        "foot": "FOOT FEET *FUSS* FUESSE PIED* PIE PIES PIEDE PIEDI VOET* HEEL* CALCANE* FERSE*",
        "toe": "TOE TOES ZEHE* ORTEIL* TEEN TENEN GROSSZEHE*",
        "ankle": "ANKLE* SPRUNGGELENK* OSG USG CHEVILLE* TOBILLO* CAVIGLIA ENKEL* TORNOZELO*",
        "elbow": "ELBOW* ELLBOGEN* ELLENBOGEN* COUDE* CODO CODOS GOMITO ELLEBOOG COTOVELO*",
        "shoulder": "SHOULDER* SCHULTER* EPAULE* HOMBRO* SPALLA SPALLE SCHOUDER* OMBRO* SCAPUL* "
        "SKAPULA*",
        "clavicle": "CLAVIC* KLAVIK* CLAVIKULA SCHLUSSELBEIN* SCHLUESSELBEIN* SLEUTELBEEN",
        "ribs": "RIB RIBS RIPPE* COTES COSTILLA* COSTE COSTELA* RIBBEN STERN "
        "STERNUM* STERNAL* STERNO STERNOC* BRUSTBEIN",
        "skull": "SKULL* HEAD SCHADEL* SCHAEDEL* CRANE* CRANIO* CRANIU* SCHEDEL* SINUS* NNH KOPF* "
        "NASENN* "
        "ORBIT* FACIAL NASAL NOSE NASE TETE CABEZA TESTA HOOFD CABECA ZYGOMA",
        "jaw": "JAW *KIEFER* MANDIB* MAXILL* OPG DENTAL ZAHN* TMJ PANOREX TEETH",
        "neck": "NECK HALS HALSWEICHTEIL* COU CUELLO COLLO NEK PESCOCO LARYNX",
        "spine": "SPINE* CSPINE TSPINE LSPINE SSPINE HWS BWS LWS *WIRBEL* VERTEB* RACHIS COLUMNA "
        "COLUNA COLONNA WERVEL* LUMB* LOMB* CERVIC* SACR* COCCY* STEISS* SKOLIO* SCOLIO* ESCOLIO* "
        "ESPINHA THORACOLUMB* CWK LWK TWK",
        "leg": "LEG LEGS FEMUR* FEMORAL OBERSCHENKEL* UNTERSCHENKEL* TIBIA* FIBULA* BEIN BEINE "
        "JAMBE* PIERNA* GAMBA* BEEN BENEN PERNA* CUISSE* THIGH* MUSLO* COSCIA COXAS EXTREMIT* ARTO "
        "ARTI GANZBEIN*",
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
