"""The words of the five findings: phrasings by kind of statement, the commonest first.

Braces name slots and brackets hold choices, as ``grammar`` fills them.  How often a phrasing is
used falls with its rank, so every list has common and rare members.
"""

SYNONYMS: dict[str, tuple[str, ...]] = {
    "heart 1": ("mild", "slight", "minimal", "borderline to mild"),
    "heart 2": ("moderate", "moderately severe"),
    "heart 3": ("severe", "marked", "massive", "gross"),
    "heartly 1": ("mildly", "slightly", "minimally"),
    "heartly 2": ("moderately",),
    "heartly 3": ("severely", "markedly", "massively"),
    "edema 1": ("mild", "minimal", "early", "slight"),
    "edema 2": ("moderate", "moderately severe", "mild to moderate"),
    "edema 3": ("severe", "florid", "extensive", "marked"),
    "fluid 1": ("small", "tiny", "trace", "minimal"),
    "fluid 2": ("moderate", "moderate-sized", "medium-sized", "moderately large"),
    "fluid 3": ("large", "very large", "massive"),
    "dense 1": ("mild", "subtle", "faint", "minimal", "hazy", "small"),
    "dense 2": ("moderate", "patchy", "patchy moderate", "ill-defined moderate"),
    "dense 3": ("severe", "dense", "extensive", "marked"),
    "air 1": ("small", "tiny", "minimal", "subtle"),
    "air 2": ("moderate", "moderate-sized", "medium-sized"),
    "air 3": ("large", "very large", "extensive"),
    "base right lower lobe": ("right lower lobe", "right lung base", "right base", "RLL"),
    "base left lower lobe": ("left lower lobe", "left lung base", "left base", "LLL"),
    "base right upper lobe": ("right upper lobe", "right upper lung", "RUL"),
    "base left upper lobe": ("left upper lobe", "left upper lung", "LUL"),
    "base right middle lobe": ("right middle lobe", "RML"),
    "base lingula": ("lingula", "lingula of the left lung", "lingular segment"),
}
"""Words for grades, sizes and places."""

FINDINGS: dict[str, tuple[str, ...]] = {
    "cardiomegaly": (
        "{adj} cardiomegaly.",
        "There is {adj} cardiomegaly.",
        "The [heart|cardiac silhouette|heart size|cardiac shadow] {is} {adv} enlarged.",
        "{adj} [cardiomegaly|enlargement of the cardiac silhouette|cardiac enlargement] {seen}.",
        "{there} {adj} [enlargement of the [cardiac silhouette|heart]|cardiac enlargement].",
        "[Heart size|Cardiac size] {is} {adv} [increased|enlarged].",
        "The [transverse diameter of the heart|cardiothoracic ratio] is {adv} increased.",
        "{adj} cardiomegaly[ accentuated by the projection| without evidence of failure|].",
    ),
    "cardiomegaly any": (
        "Cardiomegaly.",
        "The heart is enlarged.",
        "The cardiac silhouette is enlarged.",
        "[Enlarged heart|Enlarged cardiac silhouette|Cardiac enlargement].",
        "[There is cardiomegaly|Cardiomegaly {seen}|The cardiothoracic ratio is increased].",
        "[There is cardiac enlargement|The heart size {is} enlarged|Heart size is increased].",
    ),
    "edema": (
        "{adj} pulmonary edema.",
        "There is {adj} pulmonary edema.",
        "{adj} [pulmonary|interstitial|pulmonary interstitial] edema [{seen}|].",
        "Bilateral [perihilar |interstitial |]opacities [are|] {mean} {adj} [pulmonary |]edema.",
        "[Perihilar haze|Perihilar haziness|Vascular indistinctness] {may} {adj} pulmonary edema.",
        "Findings [are|] {mean} {adj} [pulmonary |interstitial |]edema.",
        "Prominent [and indistinct |]pulmonary [vessels|vasculature], {mean} {adj} edema.",
        "{adj} fluid overload with perihilar [opacity|opacities|haze] in both lungs.",
        "{adj} [pulmonary |]vascular congestion [with|and] [interstitial |]edema[, {mean} CHF|].",
        "[Kerley B lines|Septal lines] and perihilar haze {mean} {adj} [interstitial |]edema.",
        "Diffuse[, predominantly perihilar| bilateral| interstitial] opacities[, which|] {may}"
        " {adj} [pulmonary |]edema.",
    ),
    "edema lean": (
        "{adj} asymmetric pulmonary edema, {side} greater than {other}.",
        "There is {adj} pulmonary edema, [worse|greater|more pronounced] on the {side}.",
        "Bilateral [perihilar |]opacities, {side} greater than {other}, {mean} {adj} edema.",
        "{adj} [pulmonary|interstitial] edema is [more pronounced|worse] on the {side}.",
        "{there} {adj} [pulmonary |]edema, asymmetric, {side} [greater|more] than {other}.",
    ),
    "edema any": (
        "Pulmonary edema.",
        "[Findings suggest|Findings are {mean}|There is] pulmonary edema.",
        "[There is p|P]ulmonary vascular congestion with edema.",
        "[Findings of|Findings suggest|Signs of] [fluid|volume] overload.",
        "Findings [compatible|consistent] with [CHF|congestive heart failure] with edema.",
    ),
    "effusion": (
        "{adj} {side} pleural effusion.",
        "There is a {adj} {side} pleural effusion.",
        "A {adj} {side}[-sided|] pleural effusion {seen}.",
        "{adj} {side}-sided pleural effusion [{seen}|].",
        "A {adj} amount of [pleural fluid|fluid] [is present|{seen}] [on the {side}|in the {side}"
        " pleural space].",
        "{adj} [pleural |]effusion on the {side}.",
        "[A meniscus|Opacity with a meniscus|Layering opacity] at the {side} [lung |]base [is|]"
        " {mean} a {adj} [pleural |]effusion.",
        "{adj} {side} pleural effusion [with associated|and adjacent] volume loss.",
        "Opacity at the {side} base {may} a {adj} [pleural |]effusion.",
    ),
    "effusion blunting": (
        "Blunting of the {side} costophrenic [angle|sulcus] {mean} a {adj} [pleural |]effusion.",
        "The {side} costophrenic [angle|sulcus] is blunted, [likely|probably|possibly] due to a"
        " {adj} effusion.",
        "A {adj} {side} pleural effusion may be present, blunting the costophrenic angle.",
        "Blunted {side} costophrenic [angle|sulcus], {may} a {adj} effusion[ or scarring|].",
        "[Mild|Slight|There is] blunting of the {side} costophrenic angle, [so that |]a {adj}"
        " effusion cannot be excluded.",
    ),
    "effusion any": (
        "{side} pleural effusion.",
        "There is a {side} pleural effusion.",
        "Pleural [fluid|effusion] {seen} on the {side}.",
        "[{side}-sided effusion|Effusion on the {side}|A {side} pleural effusion {seen}].",
    ),
    "effusion both": (
        "{adj} bilateral pleural effusions.",
        "There are {adj} bilateral pleural effusions.",
        "{adj} [bilateral|bilateral pleural] effusions {are}.",
        "{adj} pleural effusions {are} on both sides.",
        "Both costophrenic angles are [obscured|blunted] by {adj} effusions.",
        "{adj} bilateral pleural effusions with [adjacent|associated|compressive] volume loss.",
    ),
    "effusion both any": (
        "Bilateral pleural effusions.",
        "There are bilateral pleural effusions.",
        "[Pleural fluid {seen} on both sides|Bilateral effusions {are}].",
    ),
    "effusion uneven": (
        "Bilateral pleural effusions, [larger on the {side}|{side} greater than {other}].",
        "There are bilateral pleural effusions, [{side} greater than {other}|larger on the"
        " {side}].",
        "Pleural effusions on both sides, the {side} one being larger.",
        "Bilateral [pleural |]effusions, {side} [larger|greater|more] than {other}.",
    ),
    "pneumonia": (
        "There is {adj} consolidation in the {lobe}.",
        "{adj} opacity in the {lobe}[, which|] {may} pneumonia.",
        "{adj} [airspace|parenchymal|focal] opacity [{seen} |]in the {lobe}, {mean} pneumonia.",
        "{adj} [focal |lobar |airspace |]consolidation {seen} [in|within] the {lobe}.",
        "{adj} opacification of the {lobe} is {mean} [pneumonia|consolidation].",
        "{adj} infiltrate [in|within] the {lobe}[, [likely|probably] infectious|, {may}"
        " pneumonia|].",
        "[In|Within] the {lobe} there is {adj} [parenchymal |airspace |]opacity [that|which] may"
        " [represent|reflect] pneumonia[ or aspiration|].",
        "{there} {adj} [airspace disease|airspace opacity|consolidation|infiltrate] [in|within]"
        " the {lobe}[, {mean} pneumonia| {may} pneumonia|].",
        "{adj} {lobe} [opacity|infiltrate|airspace opacity], {may} pneumonia[ in the appropriate"
        " clinical setting| versus atelectasis| or aspiration|].",
    ),
    "pneumonia silhouette": (
        "{adj} consolidation in the {lobe} [obscures|silhouettes] the right heart border.",
        "{adj} right middle lobe [opacity|consolidation] silhouettes the right heart border[,"
        " {mean} pneumonia|].",
    ),
    "pneumonia bronchogram": (
        "{adj} consolidation with air bronchograms in the {lobe}[, {mean} pneumonia|].",
        "{adj} {lobe} consolidation [contains|with] air bronchograms.",
    ),
    "pneumonia any": (
        "{lobe} pneumonia.",
        "Consolidation in the {lobe}.",
        "[Pneumonia|Infiltrate|Airspace disease] in the {lobe}.",
        "Opacity in the {lobe}, {may} pneumonia[ or atelectasis|].",
        "Findings {mean} pneumonia in the {lobe}.",
        "{lobe} [opacity|infiltrate|airspace disease|consolidation][, {may} pneumonia|].",
    ),
    "pneumonia pair": (
        "{adj} consolidation {seen} in the {lobe} and the {second}.",
        "There are {adj} opacities in the {lobe} and in the {second}, {may} pneumonia.",
        "{adj} multifocal [airspace |]opacities [involve|in] the {lobe} and the {second}[, {mean}"
        " pneumonia|].",
        "{adj} {lobe} and {second} [airspace disease|infiltrates|opacities][, {may} pneumonia|].",
    ),
    "pneumonia multifocal": (
        "Multifocal pneumonia.",
        "Findings are {mean} multifocal pneumonia.",
        "Multifocal [airspace |]opacities[, which|] {may} [infection|pneumonia].",
    ),
    "pneumonia side": (
        "Findings {mean} pneumonia on the {side}.",
        "{side} lung pneumonia.",
        "{side}-sided [consolidation|opacity] {may} [infection|pneumonia].",
    ),
    "pneumonia nowhere": (
        "Findings [suggesting|suggest|consistent with] pneumonia.",
        "Findings are concerning for pneumonia.",
        "[Infection|Pneumonia] is suspected.",
        "[Pneumonia cannot be excluded|Follow-up to document resolution of the pneumonia is"
        " recommended].",
    ),
    "pneumothorax": (
        "{adj} {side} {place} pneumothorax.",
        "There is a {adj} {side} {place} pneumothorax.",
        "A {adj} {place} pneumothorax {seen} on the {side}.",
        "{adj} {side}-sided pneumothorax, {place} in location.",
        "A {place} pleural line on the {side} [indicates|is {mean}] a {adj} pneumothorax.",
        "{there} a {adj} {side} {place} pneumothorax[ without [mediastinal|tracheal] deviation|].",
        "[A|Thin] {place} [pleural line|lucency] on the {side} {may} a {adj} pneumothorax.",
        "{adj} {side} {place} pneumothorax[, measuring approximately {width} mm|, with {width} mm"
        " between lung and chest wall|].",
    ),
    "pneumothorax sized": (
        "{adj} {side} pneumothorax.",
        "There is a {adj} {side} pneumothorax.",
        "A {adj} pneumothorax {seen} on the {side}.",
        "The {side} lung is [retracted|partly collapsed] by a {adj} pneumothorax.",
    ),
    "pneumothorax any": (
        "{side} pneumothorax.",
        "There is a {side}-sided pneumothorax.",
        "A pleural line {seen} on the {side}, {mean} a pneumothorax.",
        "Pneumothorax [{seen} |]on the {side}.",
    ),
    "pneumothorax tension": (
        "{side} tension pneumothorax with shift of the mediastinum.",
        "There is a {side} tension pneumothorax with collapse of the lung.",
        "[Large|Very large] {side} pneumothorax under tension, [displacing|shifting] the"
        " mediastinum to the {other}.",
    ),
    "pneumothorax both": (
        "{adj} bilateral [apical |]pneumothoraces.",
        "There are {adj} bilateral apical pneumothoraces.",
        "{adj} pneumothoraces {are} at both apices.",
    ),
}
"""Statements that something is there."""
