"""The words of what surrounds the findings: incidental statements, indications, comparisons."""

INCIDENTAL: dict[str, tuple[str, ...]] = {
    "aorta normal": (
        "The mediastinal contours are normal.",
        "The mediastinal and hilar contours are unremarkable.",
        "Normal mediastinal silhouette.",
        "The aorta is normal in contour.",
    ),
    "aorta tortuous": (
        "The aorta is tortuous.",
        "Tortuous thoracic aorta.",
        "Unfolding of the thoracic aorta is noted.",
    ),
    "aorta calcified": (
        "The aortic arch is calcified.",
        "Calcification of the aortic knob is noted.",
        "Atherosclerotic calcification of the aorta.",
    ),
    "spine straight": (
        "The thoracic spine is unremarkable.",
        "Normal alignment of the thoracic spine.",
        "The visualized spine is intact.",
    ),
    "spine degenerative": (
        "Degenerative changes of the thoracic spine are present.",
        "There are degenerative changes of the spine.",
        "Multilevel degenerative disease of the thoracic spine.",
    ),
    "spine scoliosis right": (
        "There is scoliosis of the thoracic spine, convex to the right.",
        "Dextroconvex scoliosis.",
        "Right convex scoliosis of the thoracic spine.",
    ),
    "spine scoliosis left": (
        "There is scoliosis of the thoracic spine, convex to the left.",
        "Levoconvex scoliosis.",
        "Left convex scoliosis of the thoracic spine.",
    ),
    "volume normal": (
        "The lungs are well expanded.",
        "Lung volumes are normal.",
        "The lungs are well inflated.",
    ),
    "volume low": (
        "Lung volumes are low.",
        "Low lung volumes.",
        "The lungs are poorly expanded.",
        "Shallow inspiration with crowding of the vessels.",
    ),
    "volume high": (
        "The lungs are hyperinflated.",
        "Hyperinflation with flattening of the diaphragm.",
        "Lung volumes are increased.",
    ),
    "unchanged": (
        "No significant change since the prior study.",
        "Findings are unchanged from the prior radiograph.",
        "Stable appearance compared to the previous study.",
        "Unchanged appearance of the chest.",
    ),
}
"""Statements beside the five findings."""

COMPLAINTS: dict[str, tuple[str, ...]] = {
    "Cardiomegaly": ("dyspnea on exertion", "leg swelling", "known hypertension"),
    "Edema": ("acute shortness of breath", "orthopnea", "suspected fluid overload"),
    "Pleural Effusion": ("shortness of breath", "dullness to percussion", "pleuritic pain"),
    "Pneumonia": ("fever and cough", "productive cough", "suspected infection"),
    "Pneumothorax": ("sudden chest pain", "chest pain after a fall", "chest pain after a biopsy"),
    "": ("chest pain", "cough", "shortness of breath", "preoperative examination", "dizziness"),
}
"""Reasons for an examination, by the finding that lies behind them; "" without one."""

INDICATIONS = (
    "{age}-year-old {person} with {complaint}.",
    "{person}, {age} years old, with {complaint}.",
    "Evaluate {person} with {complaint}.",
    "{complaint}.",
)

PRIOR = (
    "Prior chest radiograph.",
    "Chest radiograph from the previous admission.",
    "Chest radiograph from the day before.",
    "Multiple prior radiographs, the most recent from last week.",
)

NO_PRIOR = ("None.", "None available.", "", "No prior studies are available for comparison.")
