"""The words of tubes, lines and other devices, the commonest first."""

DEVICES: dict[str, tuple[str, ...]] = {
    "tube good": (
        "[Endotracheal tube|ET tube|ETT] [tip |]is [approximately |]{cm} cm above the carina.",
        "[The e|E]ndotracheal tube [tip |][terminates|ends|projects] {cm} cm above the carina[, in"
        " [good|standard|satisfactory] position|].",
        "[Endotracheal tube|ET tube|ETT] in [standard|good|satisfactory|appropriate] position.",
        "[The patient is intubated with|There is] [an endotracheal tube|an ET tube], its tip {cm}"
        " cm [above|from] the carina.",
    ),
    "tube low": (
        "[The e|E]ndotracheal tube [tip |]terminates in the right main[stem|] bronchus.",
        "[ET tube|ETT|Endotracheal tube] tip in the right mainstem bronchus[, and should be"
        " [retracted|withdrawn]|; recommend repositioning|].",
        "[Low|Malpositioned] endotracheal tube[ in|, its tip in] the right main bronchus.",
    ),
    "tube high": (
        "[The e|E]ndotracheal tube [tip |][is|terminates] {cm} cm above the carina[, above the"
        " thoracic inlet|], and [should|could] be advanced.",
        "[High|High-riding] [endotracheal tube|ET tube|ETT][, {cm} cm above the carina|].",
        "[ET tube|ETT|Endotracheal tube] tip [projects over|at] the thoracic inlet[; advancement is"
        " recommended|].",
    ),
    "tube any": (
        "[Endotracheal tube|ET tube|ETT] [in place|{seen}].",
        "The patient is intubated.",
        "[Status post|Interval] intubation.",
    ),
    "line": (
        "{line} [tip |]in the SVC.",
        "A {line} [terminates|ends|projects] in the [SVC|mid SVC|superior vena cava].",
        "[There is a|A] {line} with [its |]tip in the [SVC|mid SVC|superior vena cava].",
        "{line} [with its tip |with tip |tip |]in the [SVC|mid SVC|lower SVC|superior vena cava].",
        "{line} [in place|{seen}], its tip [projecting over|in] the SVC.",
    ),
    "line any": (
        "[Central venous catheter|Central line] [in place|{seen}].",
        "[Central venous catheter|Central line] tip in the [SVC|superior vena cava].",
    ),
    "line side": (
        "{side}[-sided|] central [venous |][line|catheter] [in place|{seen}|tip in the SVC].",
        "[There is a|A] {side} central venous catheter[ with tip in the SVC| {seen}|].",
    ),
    "picc": ("PICC [line |][in place|{seen}|tip in the SVC].", "[There is a PICC|A PICC {seen}]."),
    "pacemaker": (
        "{side}[-sided|] [chest |]{leads} [lead |]pacemaker[ in place| {seen}|].",
        "[There is a|A|] {side} {leads}-lead [pacemaker|pacing device|cardiac pacer][ {seen}| with"
        " intact leads|].",
    ),
    "pacemaker any": (
        "Pacemaker.",
        "[Cardiac pacemaker|Pacemaker|Pacing device] [in place|{seen}].",
    ),
    "pacemaker side": (
        "{side} [chest |]pacemaker[ in place| {seen}|].",
        "{side}-sided [pacemaker|pacer|cardiac device] [in place|{seen}].",
    ),
    "drain": (
        "{side} chest tube[ in place|].",
        "[There is a|A] {side}[-sided|] [chest tube|pleural drain|thoracostomy tube][ in place|"
        " {seen}| in situ].",
        "{side}[-sided|] [chest tube|pleural catheter|thoracostomy tube][ {seen}| |].",
    ),
    "wires": (
        "[Median s|S]ternotomy wires[ are intact|].",
        "[Median|Midline] sternotomy wires[ {are}| in place|].",
        "[Status post|Prior|Postsurgical changes of|Patient is status post] [median |]sternotomy.",
        "Sternotomy wires [are intact|are noted|and changes of prior CABG].",
    ),
    "positions": (
        "[Lines and tubes|Support devices|Tubes and lines] [are |]in [good|standard|satisfactory|"
        "appropriate] position[s|].",
        "[Endotracheal tube and central line|ET tube and central venous catheter] [are |]in"
        " [good|standard|satisfactory] position.",
    ),
}
"""Statements on devices."""

LINES: dict[str, tuple[str, ...]] = {
    "right ij": (
        "right IJ central line",
        "right internal jugular central [venous |]catheter",
        "right IJ catheter",
        "right IJ line",
    ),
    "left ij": ("left IJ central line", "left internal jugular [venous |]catheter", "left IJ line"),
    "right picc": (
        "right PICC",
        "right-sided PICC",
        "right upper extremity PICC",
        "right PICC line",
    ),
    "left picc": ("left PICC", "left-sided PICC", "left upper extremity PICC", "left PICC line"),
    "right subclavian": (
        "right subclavian central line",
        "right subclavian [venous |]catheter",
        "right subclavian line",
    ),
}
"""Names of the central lines."""
