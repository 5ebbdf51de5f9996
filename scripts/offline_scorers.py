"""Choose the classifier of the offline scorers by cross-validation over the templates of the training statements.

    python scripts/offline_scorers.py

Prints accuracy and macro F1 of regard and the AUC of toxicity: 10 folds, each template (predicate) in one fold, mean
over two shuffles. The test statements are not read. The kernel was chosen so; its gain over a linear model is small.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

from markedness.audits.knowledge.language.scorers import kernel_regression, labelled_statements
from markedness.text.embeddings import embed


def main() -> None:
    """Compare the linear model with the kernel model."""
    table = labelled_statements()
    vectors, templates = embed(table["statement"].tolist()).astype(float), table["predicate"].to_numpy()
    regard, offensive = table["regard"].to_numpy(), table["offensive"].to_numpy()
    linear = LogisticRegression(C=3.0, class_weight="balanced", max_iter=2000)
    for name, model in (("linear", linear), ("kernel", kernel_regression(int(len(table) * 0.8)))):
        found = []
        for seed in range(2):
            folds = StratifiedGroupKFold(10, shuffle=True, random_state=seed)
            said = cross_val_predict(model, vectors, regard, groups=templates, cv=folds)
            score = cross_val_predict(model, vectors, offensive, groups=templates, cv=folds, method="predict_proba")
            f1 = f1_score(regard, said, average="macro")
            found.append([accuracy_score(regard, said), f1, roc_auc_score(offensive, score[:, 1])])
        accuracy, f1, auc = np.mean(found, axis=0)
        print(f"{name}: accuracy {accuracy:.3f}, macro F1 {f1:.3f}, AUC {auc:.3f}")


if __name__ == "__main__":
    main()
