"""The words of the reports: phrasings by kind of statement, the commonest first.

Braces name slots that ``wording`` fills.  How often a phrasing is used falls with its rank, so
every list has common and rare members.
"""

SYNONYMS: dict[str, tuple[str, ...]] = {
    "heart 1": ("mild", "slight", "borderline to mild"),
    "heart 2": ("moderate", "moderately severe"),
    "heart 3": ("severe", "marked", "massive"),
    "heartly 1": ("mildly", "slightly", "minimally"),
    "heartly 2": ("moderately",),
    "heartly 3": ("severely", "markedly", "massively"),
    "edema 1": ("mild", "minimal", "early", "slight"),
    "edema 2": ("moderate", "moderately severe"),
    "edema 3": ("severe", "florid", "extensive", "marked"),
    "fluid 1": ("small", "tiny", "trace", "minimal"),
    "fluid 2": ("moderate", "moderate-sized", "medium-sized"),
    "fluid 3": ("large", "very large", "massive"),
    "dense 1": ("mild", "subtle", "faint", "minimal"),
    "dense 2": ("moderate", "patchy moderate"),
    "dense 3": ("severe", "dense", "extensive", "marked"),
    "air 1": ("small", "tiny", "minimal", "subtle"),
    "air 2": ("moderate", "moderate-sized", "medium-sized"),
    "air 3": ("large", "very large", "extensive"),
    "base right lower lobe": ("right lower lobe", "right lung base", "right base"),
    "base left lower lobe": ("left lower lobe", "left lung base", "left base"),
    "base right upper lobe": ("right upper lobe", "right upper lung"),
    "base left upper lobe": ("left upper lobe", "left upper lung"),
    "base right middle lobe": ("right middle lobe",),
    "base lingula": ("lingula", "lingula of the left lung"),
}
"""Words for grades, sizes and places."""

FINDINGS: dict[str, tuple[str, ...]] = {
    "cardiomegaly": (
        "There is {adj} cardiomegaly.",
        "The heart is {adv} enlarged.",
        "The cardiac silhouette is {adv} enlarged.",
        "{adj} cardiomegaly is present.",
        "{adj} enlargement of the cardiac silhouette.",
        "Heart size is {adv} increased.",
        "{adj} cardiomegaly is again demonstrated.",
        "The transverse diameter of the heart is {adv} increased.",
    ),
    "cardiomegaly any": (
        "Cardiomegaly.",
        "The heart is enlarged.",
        "The cardiac silhouette is enlarged.",
        "Enlarged heart.",
        "The cardiothoracic ratio is increased.",
        "There is cardiac enlargement.",
    ),
    "edema": (
        "There is {adj} pulmonary edema.",
        "{adj} pulmonary edema.",
        "{adj} pulmonary edema is present.",
        "Bilateral perihilar opacities are consistent with {adj} pulmonary edema.",
        "Perihilar haze suggests {adj} pulmonary edema.",
        "Findings are compatible with {adj} edema.",
        "Prominent and indistinct pulmonary vessels suggest {adj} edema.",
        "{adj} fluid overload with perihilar opacity in both lungs.",
    ),
    "edema lean": (
        "There is {adj} pulmonary edema, worse on the {side}.",
        "{adj} asymmetric pulmonary edema, {side} greater than {other}.",
        "Bilateral perihilar opacities, {side} greater than {other}, reflect {adj} edema.",
        "{adj} pulmonary edema is more pronounced on the {side}.",
    ),
    "edema any": (
        "Pulmonary edema.",
        "Findings suggest pulmonary edema.",
        "There is pulmonary vascular congestion with edema.",
        "Findings of fluid overload.",
    ),
    "effusion": (
        "There is a {adj} {side} pleural effusion.",
        "{adj} {side} pleural effusion.",
        "A {adj} {side} pleural effusion is present.",
        "{adj} {side}-sided pleural effusion is seen.",
        "A {adj} amount of pleural fluid is present on the {side}.",
        "{adj} effusion on the {side}.",
        "A meniscus at the {side} base reflects a {adj} pleural effusion.",
    ),
    "effusion blunting": (
        "Blunting of the {side} costophrenic angle suggests a {adj} pleural effusion.",
        "The {side} costophrenic angle is blunted, likely due to a {adj} effusion.",
        "A {adj} {side} pleural effusion may be present, blunting the costophrenic angle.",
    ),
    "effusion any": (
        "There is a {side} pleural effusion.",
        "{side} pleural effusion.",
        "Pleural fluid is present on the {side}.",
        "{side}-sided effusion.",
    ),
    "effusion both": (
        "There are {adj} bilateral pleural effusions.",
        "{adj} bilateral pleural effusions.",
        "{adj} pleural effusions are present on both sides.",
        "Both costophrenic angles are obscured by {adj} effusions.",
    ),
    "effusion both any": (
        "Bilateral pleural effusions.",
        "There are bilateral pleural effusions.",
        "Pleural fluid is present on both sides.",
    ),
    "effusion uneven": (
        "Bilateral pleural effusions, larger on the {side}.",
        "There are bilateral pleural effusions, {side} greater than {other}.",
        "Pleural effusions on both sides, the {side} one being larger.",
    ),
    "pneumonia": (
        "There is {adj} consolidation in the {lobe}.",
        "{adj} opacity in the {lobe} is concerning for pneumonia.",
        "{adj} airspace opacity in the {lobe}, suggestive of pneumonia.",
        "{adj} focal consolidation is seen in the {lobe}.",
        "{adj} opacification of the {lobe} is compatible with pneumonia.",
        "{adj} infiltrate in the {lobe}, likely infectious.",
        "In the {lobe} there is {adj} parenchymal opacity that may represent pneumonia.",
    ),
    "pneumonia silhouette": (
        "{adj} consolidation in the {lobe} obscures the right heart border.",
        "{adj} right middle lobe opacity silhouettes the right heart border.",
    ),
    "pneumonia bronchogram": (
        "{adj} consolidation with air bronchograms in the {lobe}.",
        "{adj} {lobe} consolidation contains air bronchograms.",
    ),
    "pneumonia any": (
        "Consolidation in the {lobe}.",
        "Pneumonia in the {lobe}.",
        "Opacity in the {lobe}, suspicious for pneumonia.",
        "Findings suggesting pneumonia in the {lobe}.",
    ),
    "pneumonia pair": (
        "{adj} consolidation is present in the {lobe} and the {second}.",
        "There are {adj} opacities in the {lobe} and in the {second}, concerning for pneumonia.",
        "{adj} multifocal opacities involve the {lobe} and the {second}.",
    ),
    "pneumonia multifocal": (
        "Findings are consistent with multifocal pneumonia.",
        "Multifocal pneumonia.",
        "Multifocal airspace opacities suggest infection.",
    ),
    "pneumonia side": (
        "Findings suggest pneumonia on the {side}.",
        "{side} lung pneumonia.",
        "{side}-sided consolidation is suspicious for infection.",
    ),
    "pneumonia nowhere": (
        "Findings suggesting pneumonia.",
        "Findings are concerning for pneumonia.",
        "Infection is suspected.",
    ),
    "pneumothorax": (
        "There is a {adj} {side} {place} pneumothorax.",
        "{adj} {side} {place} pneumothorax.",
        "A {adj} {place} pneumothorax is seen on the {side}.",
        "{adj} {side}-sided pneumothorax, {place} in location.",
        "A {place} pleural line on the {side} indicates a {adj} pneumothorax.",
    ),
    "pneumothorax sized": (
        "There is a {adj} {side} pneumothorax.",
        "{adj} {side} pneumothorax.",
        "A {adj} pneumothorax is present on the {side}.",
        "The {side} lung is retracted by a {adj} pneumothorax.",
    ),
    "pneumothorax any": (
        "{side} pneumothorax.",
        "There is a {side}-sided pneumothorax.",
        "A pleural line is visible on the {side}, in keeping with a pneumothorax.",
        "Pneumothorax on the {side}.",
    ),
    "pneumothorax tension": (
        "{side} tension pneumothorax with shift of the mediastinum.",
        "There is a {side} tension pneumothorax with collapse of the lung.",
        "Large {side} pneumothorax under tension, displacing the mediastinum to the {other}.",
    ),
    "pneumothorax both": (
        "There are {adj} bilateral apical pneumothoraces.",
        "{adj} pneumothoraces are present at both apices.",
        "{adj} bilateral pneumothoraces.",
    ),
}
"""Statements that something is there."""

NEGATIONS: dict[str, tuple[str, ...]] = {
    "cardiomegaly": (
        "Heart size is normal.",
        "The heart is normal in size.",
        "The cardiac silhouette is within normal limits.",
        "Heart size normal.",
        "The heart is not enlarged.",
        "No cardiomegaly.",
        "Normal cardiac silhouette.",
    ),
    "edema": (
        "No pulmonary edema.",
        "There is no pulmonary edema.",
        "No evidence of pulmonary vascular congestion.",
        "The pulmonary vasculature is normal.",
        "There are no signs of fluid overload.",
    ),
    "effusion": (
        "No pleural effusion.",
        "There is no pleural effusion.",
        "No pleural effusions.",
        "The costophrenic angles are sharp.",
        "There are no pleural effusions.",
        "No pleural effusions are seen.",
        "The pleural spaces are free of fluid.",
    ),
    "pneumonia": (
        "No focal consolidation.",
        "There is no focal consolidation.",
        "No signs of pneumonia.",
        "There is no evidence of pneumonia.",
        "No focal airspace opacity.",
        "No infiltrate is identified.",
    ),
    "pneumothorax": (
        "No pneumothorax.",
        "There is no pneumothorax.",
        "No pneumothorax is seen.",
        "There is no evidence of pneumothorax.",
        "The lungs are fully expanded without pneumothorax.",
    ),
    "effusion side": (
        "No pleural effusion on the {side}.",
        "There is no {side} pleural effusion.",
        "The {side} costophrenic angle is sharp.",
    ),
    "pneumothorax side": (
        "No pneumothorax on the {side}.",
        "There is no {side} pneumothorax.",
    ),
    "lung side": (
        "The {side} lung is clear.",
        "The {side} lung remains clear.",
        "No consolidation in the {side} lung.",
    ),
    "effusion pneumothorax": (
        "No pleural effusion or pneumothorax.",
        "There is no pleural effusion or pneumothorax.",
        "No pleural effusions or pneumothorax.",
        "No pneumothorax or pleural effusion is seen.",
        "Neither pleural effusion nor pneumothorax is present.",
    ),
    "pneumonia effusion pneumothorax": (
        "No focal consolidation, pleural effusion, or pneumothorax.",
        "There is no focal consolidation, pleural effusion or pneumothorax.",
        "No consolidation, effusion, or pneumothorax is identified.",
    ),
    "pneumonia effusion": (
        "No focal consolidation or pleural effusion.",
        "There is no consolidation or effusion.",
    ),
    "pneumonia edema": (
        "The lungs are clear.",
        "Lungs are clear.",
        "Both lungs are clear.",
        "Clear lungs.",
        "The lungs are clear without consolidation or edema.",
        "Lung fields are clear.",
    ),
    "acute": (
        "No acute cardiopulmonary process.",
        "No acute cardiopulmonary abnormality.",
        "No evidence of acute cardiopulmonary disease.",
        "No acute intrathoracic process.",
    ),
    "normal": (
        "Normal chest radiograph.",
        "Unremarkable chest radiograph.",
        "Normal study.",
    ),
}
"""Statements that something is not there."""
