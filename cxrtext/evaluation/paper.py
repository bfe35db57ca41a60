"""The paper's figures, as it prints them; needs no torch.

Source: Wang et al. 2023 (sample-specific debiasing for better image-text models), tables 1 and
3: measured on MIMIC-CXR (CheX5) and MS-CXR, which no other data set's figures equal.
"""

TABLE1_COLUMNS = ("AUC", "ACC", "CNR", "mIoU", "Recall", "MedR")

TABLE1 = {
    "BioViL": ("0.78", "0.62", "1.14", "0.17", "0.25", "148"),
    "LSE+NL": ("0.79", "0.65", "1.40", "0.19", "0.29", "115"),
    "remove by CheX5 labels": ("0.86", "0.71", "1.37", "0.19", "0.29", "113"),
    "resample by text similarity": ("0.82", "0.71", "1.37", "0.19", "0.30", "111"),
    "remove by text similarity": ("0.84", "0.72", "1.39", "0.19", "0.30", "112"),
    "reweight by text similarity": ("0.84", "0.69", "1.40", "0.19", "0.29", "113"),
    "DCL-η, η = 0.05": ("0.80", "0.72", "1.46", "0.19", "0.30", "104"),
    "DCL-η, η = 0.1": ("0.85", "0.72", "1.45", "0.19", "0.29", "111"),
    "DCL-η_LM": ("0.86", "0.72", "1.49", "0.20", "0.30", "104"),
}

PROPOSED = "LSE+NL with DCL-η_LM"
"""What table 3 calls the last row."""
TABLE3_COLUMNS = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")

TABLE3 = {
    "BioViL": ("0.752", "0.887", "0.914", "0.768", "0.594", "0.783"),
    "LSE+NL": ("0.888", "0.876", "0.798", "0.853", "0.526", "0.788"),
    PROPOSED: ("0.884", "0.889", "0.913", "0.861", "0.760", "0.862"),
}
"""AUC by finding, and the mean."""
