"""The words of what is not there or is as it should be, the commonest first."""

NEGATIONS: dict[str, tuple[str, ...]] = {
    "cardiomegaly": (
        "Heart size is normal.",
        "The heart is normal in size.",
        "Heart size normal.",
        "[The cardiac silhouette|The heart size|Heart size|The heart] {is} {within}.",
        "[The h|H]eart [size |]is not enlarged.",
        "[Normal heart size|No cardiomegaly|Normal cardiac silhouette|Heart not enlarged].",
        "The [cardiac silhouette|heart|cardiac contour] {is} [normal|within normal limits] [in"
        " size[ and contour|]|for size|for age|].",
        "The [heart|cardiac silhouette] is not [significantly |]enlarged[ given the technique| for"
        " the projection|].",
    ),
    "edema": (
        "No pulmonary edema.",
        "[The p|P]ulmonary vascularity is within normal limits.",
        "Pulmonary vascularity is normal.",
        "[There is no|No] [pulmonary edema|overt edema|evidence of pulmonary edema|evidence of"
        " pulmonary vascular congestion|interstitial edema].",
        "[The p|P]ulmonary [vasculature|vascularity|vessels] {is} {within}.",
        "There are no [signs|findings|radiographic signs] of [fluid overload|heart failure|volume"
        " overload|CHF].",
    ),
    "effusion": (
        "No pleural effusion.",
        "There is no pleural effusion.",
        "No pleural effusions.",
        "The costophrenic [angles|sulci] {isare} [sharp|clear|preserved].",
        "[There are no|No] [pleural effusions|effusions][ {are}|].",
        "[No|There is no] [evidence of |visible |definite ][pleural effusion|pleural fluid|layering"
        " effusion|effusion].",
        "The pleural spaces {isare} [free of fluid|clear].",
    ),
    "large effusion": (
        "No large pleural effusion.",
        "No large pleural effusions[ {are}|].",
        "[There is no|No] [large|massive] [pleural |]effusion[ {seen}|].",
    ),
    "pneumonia": (
        "No focal consolidation.",
        "There is no focal consolidation.",
        "No focal airspace [opacity|disease|consolidation].",
        "[There is no|No] [evidence of |definite |convincing |][pneumonia|acute infiltrate|focal"
        " consolidation|focal infiltrate|lobar consolidation|focal airspace disease].",
        "[No|There is no] [infiltrate|consolidation|focal infiltrate|airspace consolidation] [is"
        " identified|is seen|to suggest pneumonia].",
        "The lungs {isare} [free|clear] of [focal |acute |][consolidation|infiltrate|airspace"
        " disease|infiltrates].",
    ),
    "pneumothorax": (
        "No pneumothorax.",
        "There is no pneumothorax.",
        "No pneumothorax [{seen}|].",
        "[There is no|No] [evidence of [a |]|visible |definite |appreciable |apical |]pneumothorax"
        "[ {seen}|].",
        "No [pneumothoraces|visible pneumothorax|pneumothorax on either side].",
    ),
    "atelectasis": (
        "No atelectasis.",
        "[There is no|No] [significant |basal |lobar |][atelectasis|volume loss|collapse].",
    ),
    "nodule": (
        "There are no nodules or masses.",
        "No [suspicious |discrete |pulmonary |][nodule|mass|nodules or masses|nodule or mass]"
        "[ {seen}|].",
        "[There is no|No] [evidence of |][a |][pulmonary |lung |][nodule|mass].",
    ),
    "effusion side": (
        "No pleural effusion on the {side}.",
        "There is no {side}[-sided|] [pleural |]effusion.",
        "The {side} costophrenic [angle|sulcus] {is} [sharp|clear].",
        "[There is no|No] [evidence of |]effusion on the {side}.",
    ),
    "pneumothorax side": (
        "No pneumothorax on the {side}.",
        "There is no {side}[-sided|] pneumothorax.",
        "No [visible |definite |evidence of ]{side} pneumothorax.",
    ),
    "lung side": (
        "The {side} lung is clear.",
        "[The {side} lung|{side} lung] {is} [clear|unremarkable].",
        "[The {side} lung|{side} lung] is [normally aerated|well aerated and clear].",
    ),
    "pneumonia side": (
        "No consolidation [in|within] the {side} lung.",
        "[There is no|No] [focal |][consolidation|airspace disease|infiltrate] on the {side}.",
    ),
    "clear": (
        "The lungs are clear.",
        "Lungs are clear.",
        "The lungs are clear bilaterally.",
        "[Both lungs are clear|Clear lungs|Lungs clear|The lungs appear clear].",
        "[The lungs|Lungs|Both lungs|The lung fields] {isare} [clear|clear bilaterally|grossly"
        " clear|symmetrically aerated and clear].",
        "The lungs are clear[,|] without [evidence of |][focal |acute |][consolidation|infiltrate|"
        "airspace disease|opacity][ or edema| or nodule| or mass|].",
        "The lungs {isare} clear of [focal |acute |][airspace disease|infiltrate|consolidation].",
        "[No|There are no] [focal |acute |parenchymal ][lung abnormality|opacities|pulmonary"
        " abnormalities] [are seen|is seen|identified].",
    ),
    "otherwise clear": (
        "The lungs are otherwise clear.",
        "[The lungs|Lungs] [are otherwise|otherwise are] [clear|clear of opacity].",
        "[The remaining lungs are|The remainder of the lungs is|Otherwise, the lungs are] clear[ of"
        " infiltrate| of consolidation|].",
        "No [acute|new] [parenchymal opacity|airspace disease][ {seen}|].",
    ),
    "acute": (
        "No acute cardiopulmonary abnormality.",
        "No acute cardiopulmonary process.",
        "No acute cardiopulmonary [disease|findings|abnormalities|finding].",
        "No acute [disease|findings|abnormality|process].",
        "No active disease.",
        "[No|There is no|There is no evidence of|No evidence of] [acute|active] [cardiopulmonary|"
        "intrathoracic|pulmonary|cardiac or pulmonary|chest] [process|abnormality|disease|"
        "pathology|findings].",
        "[No|No evidence of] [acute|active] [radiographic |][cardiopulmonary|thoracic|chest]"
        " [disease|abnormality|process][ identified| is seen| is identified|].",
    ),
    "normal": (
        "Normal chest.",
        "Normal chest radiograph.",
        "[Unremarkable|Normal|Negative] [chest radiograph|study|chest|chest x-ray|examination|"
        "exam].",
        "[Normal|Unremarkable] [frontal |AP |][radiograph|view] of the chest.",
        "[The chest is|Chest {is}] [normal|unremarkable].",
    ),
    "heart mediastinum": (
        "The cardiomediastinal silhouette is within normal limits.",
        "Heart and mediastinum normal.",
        "The heart size and mediastinal contours are [normal|within normal limits].",
        "[The c|C]ardiomediastinal silhouette {is} {within}.",
        "[The c|C]ardiac and mediastinal [contours|silhouettes] {isare} {within}.",
        "[The h|H]eart [size |]and mediastin[um|al contours|al silhouette] {isare} {within}.",
        "[The c|C]ardiomediastinal [silhouette|contours|contour] {is} [normal in size and contour|"
        "within normal limits for [size|age|appearance|size and contour]].",
    ),
    "mediastinum": (
        "The mediastinum is unremarkable.",
        "[The m|M]ediastinal contours are normal.",
        "[The m|M]ediastinal [contour|silhouette] {is} {within}.",
        "[The trachea is midline and the mediastinum|Mediastinum|The mediastinum] {is} {within}.",
        "[The m|M]ediastinal and hilar contours {isare} {within}.",
        "No [mediastinal widening|mediastinal mass|mediastinal abnormality][ {seen}|].",
    ),
    "bones": (
        "Bony structures are intact.",
        "[The o|O]sseous structures are [intact|unremarkable].",
        "[The v|V]isualized [osseous|bony|skeletal] structures {isare} [intact|{within}].",
        "[The b|B]ones {isare} [intact|unremarkable|grossly intact].",
        "[The b|B]ony [thorax|structures|structures of the thorax] {is} [intact|{within}].",
        "[No|There is no|There is no evidence of] [significant |focal |][osseous|bony|skeletal]"
        " abnormality.",
    ),
    "fracture": (
        "No acute bony abnormality.",
        "No acute osseous abnormality.",
        "[There is no|No] [acute |displaced |][rib |]fracture[ {seen}|].",
        "[No|There are no] [acute|displaced|visible] [rib |]fractures[ {are}|].",
        "[No|There are no] acute [bony|osseous|bone|skeletal] [abnormalities|findings].",
        "[No|There is no|No evidence of] acute [bony|osseous|bone|skeletal] [abnormality|injury].",
        "[Visualized|The visualized|The] [osseous|bony|rib] structures {isare} without [acute|"
        "displaced] [abnormality|fracture].",
    ),
    "hernia": ("No hiatal hernia.", "No [evidence of |]hiatal hernia[ {seen}|]."),
    "diaphragm": (
        "[The d|D]iaphragm is [normal|unremarkable].",
        "The [hemidiaphragms|domes of the diaphragm] {isare} [normal in position|symmetric].",
    ),
    "devices": (
        "No [lines or tubes|support devices|indwelling lines or tubes][ {are}|].",
        "There are no [lines or tubes|support devices].",
    ),
}
"""Statements that something is not there."""

GONE: dict[str, tuple[str, ...]] = {
    "tube": (
        "Interval extubation.",
        "[The patient has been extubated|The endotracheal tube has been removed].",
    ),
    "line": (
        "Interval removal of the central [venous |][line|catheter].",
        "The central [venous |][line|catheter] has been removed.",
    ),
    "drain": (
        "Interval removal of the [|{side} ]chest tube.",
        "The [{side} |]chest tube has been removed.",
    ),
    "pneumothorax": (
        "The [previous|previously seen|prior] [{side} |]pneumothorax [has resolved|is no longer"
        " seen].",
        "[Interval r|R]esolution of the [{side} |]pneumothorax.",
    ),
    "effusion": (
        "The [previous|previously seen] pleural [effusion has|fluid has] resolved.",
        "[Interval r|R]esolution of [pleural fluid|pleural effusion].",
    ),
    "edema": (
        "[Interval r|R]esolution of [pulmonary |interstitial |]edema.",
        "The [previous|previously seen] [pulmonary |]edema has [resolved|cleared].",
    ),
    "pneumonia": (
        "The [previous|previously seen] [consolidation|pneumonia|infiltrate|airspace disease] has"
        " [resolved|cleared].",
        "[Interval r|R]esolution of [the |][consolidation|pneumonia|airspace disease].",
    ),
    "atelectasis": (
        "[Interval r|R]esolution of [the |][basilar |]atelectasis.",
        "The [previous|previously seen] [basilar |]atelectasis has [resolved|cleared].",
    ),
}
"""Statements that something of the study before is no longer there."""

ITEMS: dict[str, tuple[str, ...]] = {
    "pneumonia": (
        "focal consolidation",
        "consolidation",
        "focal airspace disease",
        "pneumonia",
        "infiltrate",
        "focal airspace consolidation",
        "airspace disease",
        "lobar consolidation",
        "focal infiltrate",
        "focal airspace opacity",
    ),
    "effusion": (
        "pleural effusion",
        "pleural effusions",
        "effusion",
        "effusions",
        "pleural fluid",
    ),
    "pneumothorax": ("pneumothorax", "pneumothorax", "pneumothoraces", "visible pneumothorax"),
    "edema": (
        "pulmonary edema",
        "edema",
        "vascular congestion",
        "pulmonary vascular congestion",
        "overt edema",
        "interstitial edema",
    ),
    "nodule": ("mass", "nodules or masses", "nodule", "suspicious nodule", "pulmonary nodule"),
    "large effusion": ("large pleural effusion", "large effusion", "large pleural effusions"),
    "atelectasis": ("atelectasis", "volume loss"),
    "cardiomegaly": ("cardiomegaly", "cardiac enlargement"),
    "fracture": ("rib fracture", "acute bony abnormality", "acute osseous abnormality"),
}
"""Names of findings in lists of what is absent."""

LISTS: tuple[str, ...] = (
    "No {list}.",
    "There is no {list}.",
    "No {list} {seen}.",
    "No evidence of {list}.",
    "There is no evidence of {list}.",
    "[No|There is no] [definite|convincing|visible|radiographic evidence of|obvious|significant]"
    " {list}.",
    "[Specifically, no|Specifically no evidence of|Negative for|Otherwise no] {list}.",
    "No {list} [identified|seen|noted|detected][ on this [view|examination|study]|].",
    "[The lungs are|Lungs are|The chest is] [without|free of] {list}.",
)
"""Sentences with such a list."""
