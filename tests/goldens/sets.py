"""Public sets in miniature, imported and looked at."""

# ruff: noqa: E501 - tables of commands
import json
import shutil

from tests.goldens.run import Part

NIH = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position\n"
    "a_000.png,Cardiomegaly|Effusion,0,1,058Y,M,PA\na_001.png,No Finding,1,1,058Y,M,AP\n"
    "b_000.png,Pleural_Thickening,0,2,81,F,PA\nc_000.png,Broken Heart,0,3,81,F,PA\nd.png,Edema\n"
)
CHEXPERT = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,Edema,Pleural Effusion\n"
    "C/train/patient00001/study1/view1_frontal.jpg,Female,58,Frontal,AP,1.0,\n"
    "C/train/patient00001/study1/view2_lateral.jpg,Female,58,Lateral,,1.0,\n"
    "C/train/patient00002/study1/view1_frontal.jpg,Male,95,Frontal,PA,-1.0,0.0\n"
    "C/train/patient00003/study1/view1_frontal.jpg,Male,40,Frontal,PA,maybe,0.0\n"
    "../../etc/passwd,Male,40,Frontal,PA,,\nC/train/patient9/study1/view1_frontal.jpg,,,Frontal,,,\n"
)
MIMIC = (
    "dicom_id,subject_id,study_id,ViewPosition,split,Rows\naa-1,10000032,50414267,PA,train,64\n"
    "aa-2,10000032,50414267,LATERAL,train,64\nbb-1,10000764,57375967,AP,validate,64\n"
    "cc-1,11000011,51967845,,test,64\ndd-1,11000011,51967846,AP,test,64\n"
)
OPENI = (
    "uid,filename,projection\n1,1_IM-1-1.dcm.png,Frontal\n1,1_IM-1-2.dcm.png,Lateral\n"
    "2,2_IM-2-1.dcm.png,Frontal\n3,3_IM-3-1.dcm.png,Frontal\n"
)


def sets(run: Part) -> None:
    """import of every layout, and check-data of what comes out."""
    shutil.copytree(run.work / "base/data", run.folder / "generic")
    picture = iter(
        [path.read_bytes() for path in sorted((run.folder / "generic/images").iterdir())]
    )
    run.write("nih/Data_Entry_2017.csv", NIH)
    run.write("nih/test_list.txt", "b_000.png\n")
    run.write("nih/BBox_List_2017.csv", "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
              "a_000.png,Effusion,25.1,7.5,8.7,9.1,,,\nz.png,Infiltrate,1,2,3,4,,,\n")  # fmt: skip
    for name in ("a_000", "a_001", "b_000"):
        run.write(f"nih/images_001/images/{name}.png", next(picture))
    run.write("chexpert/train.csv", CHEXPERT)
    run.write("chexpert/valid.csv", CHEXPERT.splitlines()[0] + "\n")
    for name in ("1/study1/view1", "1/study1/view2", "2/study1/view1", "3/study1/view1"):
        run.write(f"chexpert/train/patient0000{name}_frontal.jpg", next(picture))
    for name in ("metadata", "split"):
        run.write(f"mimic/mimic-cxr-2.0.0-{name}.csv", MIMIC)
    run.write("mimic/mimic-cxr-2.0.0-chexpert.csv", "subject_id,study_id,Edema,Pneumonia\n"
              "10000032,50414267,1.0,-1.0\n10000764,57375967,,0.0\n9,9,1.0,\n")  # fmt: skip
    for line in MIMIC.splitlines()[1:5]:
        image, subject, study, *_ = line.split(",")
        folder = f"mimic/files/p{subject[:2]}/p{subject}"
        run.write(f"{folder}/s{study}/{image}.jpg", next(picture))
        run.write(f"{folder}/s{study}.txt", f"FINDINGS: Study {study} is clear.")
    coco = {
        "images": [{"id": 7, "file_name": "aa-1.jpg", "width": 3056, "height": 2544}],
        "categories": [{"id": 3, "name": "Edema"}],
        "annotations": [{"id": one, "image_id": image, "category_id": 3, "bbox": [1, 2, 30, 40],
                         "label_text": "A."} for one, image in ((1, 7), (2, 8))],
    }  # fmt: skip
    run.write("mimic/MS_CXR_Local_Alignment_v1.1.0.json", json.dumps(coco))
    run.write("openi/indiana_projections.csv", OPENI)
    run.write(
        "openi/indiana_reports.csv",
        "uid,MeSH,findings,impression\n1,x,Clear.,Normal.\n2,,,\n9,,No.,\n",
    )
    for name in ("1_IM-1-1", "1_IM-1-2", "2_IM-2-1"):
        run.write(f"openi/images/images_normalized/{name}.dcm.png", next(picture))
    run.write("key", "0123456789abcdefghij0123456789ab")
    run("phantom drawn --studies 12 --size 64 --seed 2 --format dicom")
    run("""
        import nih --out out/nih --keep age,sex
        import nih --out out/nih-hashed --hash-ids key --seed 2 --split 60,20,20 --json
        import chexpert --out out/chexpert --keep age,sex
        import mimic --out out/mimic --keep rows
        import openi --out out/openi --json
        import openi/indiana_reports.csv --out out/texts
        import generic --out out/generic --keep age,view --require-view
        import drawn/images --out out/dicom --reports drawn/reports.csv --keep age,sex,manufacturer
        import drawn/images --out out/dicom-hashed --reports drawn/reports.csv --hash-ids key
        import REAL/dicom --out out/real-dicom --keep modality,rows,body_part
        import REAL/cxr --out out/cxr --keep sex,age,finding --seed 3
        import REAL/cxr-images-only --out out/images-only
        import REAL/reports --out out/reports
        import REAL/grounding --out out/grounding
        import nih --out out/none --keep height
        import nih --out out/strict --max-rejected 0
        import openi --out out/wrong --layout nih
        import generic --out out/boxes --boxes nih/BBox_List_2017.csv
    """)
    run("import nih --out out/nih --keep age,sex\nimport nih --out out/nih --keep age")
    for out in sorted((run.folder / "out").iterdir()):
        run.tree(f"out/{out.name}")
        for table in sorted(out.glob("*.csv")):
            run.show(table.relative_to(run.folder).as_posix(), lines=25)
    damage(run)
    checks = [f"check-data out/{out.name}" for out in sorted((run.folder / "out").iterdir())]
    run(
        *checks,
        "check-data generic --no-cache --out page.html\ncheck-data generic --strict --no-cache --out page.md",
    )
    run("check-data damaged\ncheck-files damaged\ncheck-files out/nih --json")
    run("check-files damaged --accept", "check-files damaged")
    run("check-data damaged --json --workers 2")
    run("check-data damaged/manifest.csv --no-cache --out small.html --no-pictures")
    run("check-data damaged --no-cache --allow-outside --out all.json")
    run.show("all.json")
    run.show("page.md")
    run.tree("page.html", "small.html")


def damage(run: Part) -> None:
    """A data folder with one of every fault."""
    shutil.copytree(run.folder / "generic", folder := run.folder / "damaged")
    rows = (folder / "manifest.csv").read_text().splitlines()
    head, (first, second, *_) = rows[0], rows[1:]
    rows += [second, first.replace(".png", "-gone.png"), "../key" + first[first.index(",") :]]
    rows += [
        rows[3].replace("train", "test").replace("val", "train"),
        "short,row",
        rows[4].replace(",train", ",none"),
    ]
    (folder / "manifest.csv").write_text("\n".join([head, *rows[1:]]))
    images = sorted((folder / "images").iterdir())
    images[0].write_bytes(images[0].read_bytes()[:300])
    images[1].write_bytes(b"text")
    images[2].write_bytes(images[3].read_bytes())
    reports = (folder / "reports.csv").read_text()
    (folder / "reports.csv").write_text(
        reports.replace("s000004,", "s000005,") + "s999999,Clear.,\n"
    )
    labels = (folder / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text(
        "\n".join([*labels[:9], labels[9].replace(",0", ",7"), *labels[9:]])
    )
    boxes = json.loads((folder / "boxes.json").read_text())
    boxes["annotations"][0]["bbox"] = [-5, 0, 900, 10]
    boxes["annotations"][1]["image_id"] = 12345
    (folder / "boxes.json").write_text(json.dumps(boxes))
