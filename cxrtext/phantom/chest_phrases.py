"""The words of what lies beside the five findings, the commonest first."""

CHEST: dict[str, tuple[str, ...]] = {
    "linear": (
        "{base} atelectasis.",
        "[Linear|Platelike|Discoid|Subsegmental|Streaky] atelectasis [{seen} |][at|in] the {base}.",
        "[There is m|M]ild [linear |subsegmental |platelike |]atelectasis [at|in] the {base}.",
        "[Linear|Streaky|Band-like] [opacity|opacities] [at|in] the {base} {mean} atelectasis[ or"
        " scarring|].",
        "[Minimal|Mild|Some|Slight] [{base} [subsegmental |linear |]|][atelectasis|atelectatic"
        " changes] at the {base}[, {may} scarring|].",
    ),
    "basal": (
        "[Opacity|Hazy opacity|Airspace opacity|Patchy opacity] at the {base} {may} atelectasis.",
        "[{base} opacity|{base} airspace opacity|Patchy {base} opacity][, which|] {may} atelectasis"
        "[ or pneumonia| versus pneumonia| versus aspiration|].",
        "[There is|] [volume loss|atelectasis|moderate atelectasis|confluent atelectasis] [at|in]"
        " the {base}.",
        "[Opacification|Confluent opacity|Increased opacity] at the {base}, [likely"
        " atelectasis|{mean} atelectasis|atelectasis favored over pneumonia].",
    ),
    "atelectasis any": (
        "Atelectasis.",
        "[Mild|Some|There is|Minimal] [basal |basilar |]atelectasis.",
    ),
    "opacity either": (
        "[Opacity|Patchy opacity|Airspace opacity] at the {side} [lung |]base could [represent|be]"
        " [atelectasis or pneumonia|pneumonia or atelectasis].",
        "{side} [basilar|basal] opacity, [atelectasis versus pneumonia|which could be"
        " atelectasis, aspiration, or pneumonia].",
        "{side} base [opacity|opacification] [possibly|could be] [atelectasis versus"
        " infiltrate|infiltrate or atelectasis].",
    ),
    "nodule 1": (
        "[There is a|A|] {mm} mm [pulmonary |]nodule [{seen} |][in|within|projecting over] the"
        " {lobe}.",
        "[Small|Subcentimeter|{mm} mm] {lobe} [pulmonary |]nodule[, {may} granuloma|].",
        "[There is a|A|] [small|subcentimeter|tiny] [nodular opacity|nodule|nodular density]"
        " [{seen} |]in the {lobe}[, {mm} mm in [size|diameter]| measuring {mm} mm|].",
    ),
    "nodule 2": (
        "[There is a|A|] {cm} cm [pulmonary |spiculated |rounded |]nodule [{seen} |]in the {lobe}.",
        "{lobe} [pulmonary |]nodule[ measuring| of] [approximately |]{cm} cm[, {may} malignancy|].",
        "[Rounded|Nodular|Well-defined] opacity in the {lobe} [measuring|of] [approximately"
        " |about |]{cm} cm[, {may} a neoplasm|].",
    ),
    "nodule 3": (
        "[There is a|A|] [large |] {cm} cm mass [{seen} |]in the {lobe}.",
        "{lobe} mass[, measuring [approximately |]{cm} cm|][, {may} malignancy|].",
        "[Mass|Mass-like opacity|Large mass] in the {lobe}[ measuring {cm} cm|], {may} [malignancy|"
        "neoplasm|carcinoma].",
    ),
    "nodule any": (
        "[Pulmonary nodule|Nodular opacity|Nodule] in the {lobe}.",
        "[Nodular opacity|Nodule], {lobe}[, [CT is recommended|recommend CT]|].",
    ),
    "nodule side": (
        "{side} [lung|pulmonary] nodule.",
        "[Nodule|Nodular opacity] in the {side} lung[, for which CT is recommended|].",
    ),
    "nodule nowhere": (
        "[CT|Chest CT|Further evaluation with CT] is recommended [for|to evaluate] the [nodule|"
        "nodular opacity|pulmonary nodule].",
        "[Recommend|Suggest] [CT|follow-up CT|chest CT] [for|to evaluate] the pulmonary nodule.",
        "Pulmonary nodule[ as described| as above|].",
    ),
    "mass nowhere": (
        "Lung mass[ as described| as above|].",
        "[CT|Chest CT|Further evaluation with CT] is recommended for the lung mass.",
    ),
    "granuloma": (
        "Calcified granuloma [in|within] the {lobe}.",
        "[There is a|A|] [{mm} mm |small |] calcified [granuloma|nodule] [{seen} |][in|within|"
        "projecting over] the {lobe}.",
        "{lobe} [calcified |]granuloma[, {mm} mm|].",
        "[Small|Dense|Punctate] calcification in the {lobe}, {mean} a [healed |]granuloma.",
    ),
    "granuloma any": (
        "Calcified granuloma.",
        "[Evidence of|Changes of|Sequela of] [old|prior|healed] granulomatous disease.",
    ),
    "granuloma side": (
        "{side} [lung |]calcified granuloma.",
        "Calcified granuloma in the {side} lung.",
    ),
    "emphysema 1": (
        "[There are m|M]ild emphysematous changes.",
        "[Mild|Slight] [emphysema|emphysematous change|changes of COPD].",
        "Mild hyperexpansion [of the lungs |], {mean} [COPD|emphysema].",
    ),
    "emphysema 2": (
        "[There are s|S]evere emphysematous changes.",
        "[Advanced|Severe|Marked] [emphysema|emphysematous change|changes of COPD].",
        "Markedly [hyperexpanded|hyperlucent] lungs with flattened [diaphragms|hemidiaphragms],"
        " {mean} [severe |advanced |][COPD|emphysema].",
    ),
    "emphysema any": (
        "Emphysema.",
        "[Emphysematous changes|COPD|Changes of COPD|Findings of COPD|Chronic obstructive"
        " pulmonary disease].",
        "[Emphysematous changes {are}|Findings are {mean} emphysema|There are changes of COPD].",
    ),
    "fibrosis 1": (
        "[There are m|M]ild [basilar |bibasilar |]reticular opacities, {mean} [mild |]fibrosis.",
        "Mild [basal|bibasilar|basilar] [interstitial |][fibrosis|scarring|fibrotic change].",
        "[Mildly|Slightly] increased [basal |bibasilar |][interstitial|reticular] markings"
        " [{mean} fibrosis|likely chronic].",
    ),
    "fibrosis 2": (
        "[There is s|S]evere [basal |bibasilar |]fibrosis[ with honeycombing|].",
        "[Coarse|Extensive] [basal|bibasilar|basilar] reticular opacities, {mean} [advanced"
        " |]pulmonary fibrosis.",
        "[Advanced|Extensive] [interstitial |pulmonary ][fibrosis|fibrotic change] [at the bases|"
        "with basilar predominance|].",
    ),
    "fibrosis any": (
        "Pulmonary fibrosis.",
        "[Chronic interstitial|Basilar fibrotic|Chronic fibrotic] changes.",
        "Findings {mean} [interstitial lung disease|pulmonary fibrosis].",
    ),
    "chronic": (
        "[Chronic lung changes|Changes of chronic lung disease|Chronic parenchymal changes].",
        "Findings of chronic lung disease.",
    ),
    "hernia 1": (
        "Small hiatal hernia.",
        "[There is a|A|] small [hiatal|sliding hiatal] hernia[ {seen}|].",
        "[Small|Rounded] retrocardiac [density|opacity|lucency], {mean} a small hiatal hernia.",
    ),
    "hernia 2": (
        "Large hiatal hernia.",
        "[There is a|A|] [large|moderate to large] hiatal hernia[ {seen}| with air-fluid level|].",
        "Large retrocardiac [density|opacity] {mean} a hiatal hernia.",
    ),
    "hernia any": ("Hiatal hernia.", "[There is a h|H]iatal hernia[ {seen}|]."),
    "diaphragm": (
        "Elevated {side} hemidiaphragm.",
        "[There is|] [elevation of the {side} hemidiaphragm|{side} hemidiaphragm elevation].",
        "The {side} [hemidiaphragm|diaphragm] {is} [mildly |slightly |][elevated|raised].",
        "[Mild|Slight|Asymmetric] elevation of the {side} hemidiaphragm[, {may} eventration|].",
    ),
    "fracture": (
        "[There is a|A|] [fracture of the {side} {rib} rib|{side} {rib} rib fracture][ {seen}|].",
        "[Displaced|Minimally displaced|Nondisplaced|Healing] fracture of the {side}"
        " [lateral |posterior |]{rib} rib.",
        "[Deformity|Irregularity] of the {side} {rib} rib, {mean} a fracture[, age"
        " indeterminate| of uncertain age|].",
        "{side} {rib} rib [fracture|deformity, {may} a fracture].",
    ),
    "fracture any": ("Rib fracture.", "[A r|R]ib fracture {seen}."),
    "fracture side": (
        "{side} rib fracture.",
        "[There is a|A] {side}[-sided|] rib fracture[ {seen}|].",
        "Fracture of a {side} rib.",
    ),
    "scoliosis": ("Scoliosis.", "[There is s|S]coliosis of the [thoracic |]spine."),
}
"""Statements on further findings."""

MORE_INCIDENTAL: dict[str, tuple[str, ...]] = {
    "aorta tortuous": (
        "[The [thoracic |]aorta is [mildly |somewhat |][tortuous|ectatic and tortuous]|There is a"
        " [mildly |]tortuous [thoracic |]aorta].",
        "[Tortuosity|Unfolding|Tortuosity and ectasia] of the [thoracic |descending |]aorta[ {seen}"
        "|].",
    ),
    "aorta calcified": (
        "[Atherosclerotic|Vascular|Mural] calcification of the [aorta|aortic arch|thoracic"
        " aorta|aortic knob][ {seen}|].",
        "[Calcified|Atherosclerotic] [thoracic |][aorta|aortic arch].",
        "There are atherosclerotic [changes|calcifications] of the [thoracic |]aorta.",
    ),
    "spine straight": (
        "[The t|T]horacic spine is [intact|{within}].",
        "Normal [thoracic |]spine[ alignment|].",
    ),
    "spine degenerative": (
        "[Mild|Moderate|Minimal|Multilevel|There are] degenerative changes [of|in|throughout] the"
        " [thoracic |mid thoracic |lower thoracic |]spine[ {are}|].",
        "[Thoracic spondylosis|Degenerative disc disease of the spine|Degenerative endplate"
        " changes of the spine].",
        "[Osteophytes|Endplate osteophytes|Small osteophytes] [{are} |]in the thoracic spine.",
    ),
    "spine scoliosis right": (
        "[Mild|Moderate|There is|] [dextroscoliosis|dextroconvex scoliosis|rightward scoliosis] of"
        " the [thoracic |thoracolumbar |]spine[, approximately {degrees} degrees|].",
        "[Dextroscoliosis|Rightward curvature of the thoracic spine].",
    ),
    "spine scoliosis left": (
        "[Mild|Moderate|There is|] [levoscoliosis|levoconvex scoliosis|leftward scoliosis] of the"
        " [thoracic |thoracolumbar |]spine[, approximately {degrees} degrees|].",
        "[Levoscoliosis|Leftward curvature of the thoracic spine].",
    ),
    "volume normal": (
        "[The l|L]ungs {isare} [well|normally|adequately] [expanded|inflated|aerated]"
        "[ bilaterally|].",
        "[There is g|G]ood [inspiratory effort|inspiration|lung expansion].",
    ),
    "volume low": (
        "[The l|L]ung volumes {isare} [mildly |somewhat |markedly |][low|reduced|diminished].",
        "[Low lung volumes|Hypoinflation|Poor inspiration|Low inspiratory volumes] with"
        " [bronchovascular|vascular] crowding[ at the bases|].",
        "[Poor|Suboptimal|Limited] inspiratory effort[ limits evaluation| with low lung volumes|].",
    ),
    "volume high": (
        "[The l|L]ungs {isare} [mildly |markedly |][hyperinflated|hyperexpanded][ bilaterally|].",
        "[Hyperinflation|Hyperexpansion] of the lungs[ with flattened diaphragms|].",
    ),
    "unchanged": (
        "No [significant |][change|interval change] [since|from|compared with] the"
        " [prior|previous] [study|examination|exam|radiograph].",
        "[Stable|Unchanged] [chest|examination|appearance|chest radiograph][ compared to the"
        " [prior|previous] [study|exam]|].",
    ),
}
"""Further phrasings of statements that stand in ``background.INCIDENTAL``."""
