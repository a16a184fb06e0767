"""TableModel: a table with a target column -> a classifier and a deferral rule -> scored tables."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from bacoun.classifier import BaCOUnClassifier
from bacoun.columns.checks import Finding, check_table
from bacoun.columns.column import Column
from bacoun.columns.embedding import remember
from bacoun.columns.frames import as_pandas, like, table_checksum
from bacoun.columns.profile import TableProfile
from bacoun.columns.reading import listed
from bacoun.deferral import DeferralRule
from bacoun.encoders import Encoder, HasSpec
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.model_folder import read_folder, refuse_incomplete, write_folder
from bacoun.files.persistence import from_state, to_state
from bacoun.serialization import pack_classifier, unpack_classifier
from bacoun.tabular.attribution import Explainer
from bacoun.tabular.description import describe, made_now, summarize, typical_row
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.explanation import Explanation, Nearest
from bacoun.tabular.items import Choice, ItemColumns, KnownItems
from bacoun.tabular.labels import read_labels
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.replacements import Replacements
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.tabular.splitting import Sampled, Split, check_settings, split_columns


@dataclass(frozen=True)
class TableModel:
    """A classifier for tables, with the encoding of its columns and its deferral rule.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).frame
    >>> model = TableModel.fit(iris, "target", quick=True)
    >>> far_away = iris.head(1) * 9
    >>> print(*model.score(far_away)["reason"])
    unfamiliar
    >>> (why,) = model.explain(iris.head(1).assign(**{"petal length (cm)": 14.0}))
    >>> why.surprises[0].column
    'petal length (cm)'
    """

    classifier: BaCOUnClassifier
    """Fitted on the encoded training rows."""
    encoder: TableEncoder
    """Turns tables into features."""
    rule: DeferralRule
    """Calibrated on rows that were held out from training."""
    target: str
    """Name of the column with the labels."""
    facts: Mapping[str, Any]
    """Number of rows, classes, quality on the calibration rows, dropped columns: plain values."""
    made: Mapping[str, str]
    """When it was "fitted", and "with" which library versions."""
    calibration: Mapping[str, np.ndarray]
    """Of its rows (n,): "ood_score", +inf if unseen; "total" uncertainty; whether "correct"."""
    neighborhood: Neighborhood
    """Up to 10,000 of the rows, to notice others that are far from all of them."""
    replacements: Replacements
    """What columns may be replaced by, to explain why a row is unfamiliar."""
    known: Mapping[str, KnownItems] = field(default_factory=dict)
    """Up to 2,000 training items of each column of texts or photos, to show the nearest ones."""

    @classmethod
    def fit(
        cls,
        frame: Any,
        target: str,
        *,
        random_state: int = 0,
        impute: bool = True,
        group: str | None = None,
        time: str | None = None,
        calibration_share: float = 0.2,
        false_alarm: float = 0.05,
        max_error: float | Literal["auto"] | None = "auto",
        confidence: float = 0.95,
        per_class: bool = False,
        quick: bool = False,
        text: Choice = None,
        photos: Choice = None,
        text_encoder: str | Encoder = "minilm",
        photo_encoder: str | Encoder = "efficientnet-lite0",
        photo_folder: str | os.PathLike[str] = "",
        classifier: BaCOUnClassifier | None = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        sampled: Sampled | None = None,
    ) -> Self:
        """Train a classifier on a table, and calibrate its deferral rule on held-out rows.

        Parameters
        ----------
        frame : DataFrame of N rows
            Columns of numbers, booleans or text, and the target; of pandas, polars or Arrow.
        target : str
            Name of the column with the labels.
        random_state : int
            Seed of the split and of the classifier.
        impute : bool
            Whether missing values are allowed; otherwise they are an error. A gap is a category of
            its own, or the median and a 0/1 feature for it.
        group : str, optional
            Column that says which rows belong together, such as several visits of one patient. They
            stay on one side of the split, one of each group is used for calibration, and the column
            is no input. None: identical rows are copies of one event and belong together, unless
            their labels differ often: then they are different events, and each row counts.
        time : str, optional
            Column of dates or numbers. The latest rows are used for calibration, instead of random
            ones, and the column is no input.
        calibration_share : float
            Fraction of the rows, stratified by class, that is held out to calibrate the rule.
        false_alarm : float
            Largest fraction of in-distribution rows that may be flagged as unfamiliar.
        max_error : float, "auto" or None
            Largest error rate among accepted rows. Without enough evidence for it, no row is
            accepted. "auto": the tightest of 0.01, 0.02, 0.05, 0.1 and 0.2 that there is evidence
            for, if any, and rows that are wrong with a probability above 0.2 according to the model
            are deferred anyway; `facts["error_bound"]` says which. None: all familiar rows are
            accepted.
        confidence : float
            Confidence with which `max_error` holds.
        per_class : bool
            Guarantee `false_alarm` within each predicted class with enough calibration rows.
        quick : bool
            Use settings for a first look: seconds instead of minutes.
        text : list of str or False, optional
            Columns of free text. None: those of sentences. False: none; they are dropped as ids.
        photos : list of str or False, optional
            Columns of paths of photos, or of data URIs. None: those that end in .jpg, .png and so
            on. Rows with photos that cannot be read are left out, with a warning.
        text_encoder, photo_encoder : str or Encoder
            A name of `bacoun.encoders.KINDS`, or an encoder with a `spec`, by which it is saved.
        photo_folder : path
            What paths of photos are relative to; "" is the current directory.
        classifier : BaCOUnClassifier, optional
            Your own settings, with a boundary; it is fitted in place. None: the default or the
            quick ones.
        verbose : bool
            Show progress bars on stderr.
        checkpoint : path or Checkpoint, optional
            Folder to save progress to, and to resume from after an interruption.
        sampled : Sampled, optional
            What `fit_files` knows about the rows of which `frame` is a sample. None: these are all.
        """
        shares = {"calibration_share": calibration_share, "false_alarm": false_alarm}
        check_settings(random_state, max_error, **shares, confidence=confidence)
        frame, no_inputs = as_pandas(frame), split_columns(group, time)
        folder, others = os.path.abspath(photo_folder), {target, *no_inputs}
        encoders = {"text": text_encoder, "photo": photo_encoder}
        items = ItemColumns.find(frame, others, {"photo": photos, "text": text}, encoders)
        frame = items.without_unreadable(frame, folder, verbose)
        labels, table = read_labels(frame, target), frame.drop(columns=target)
        split = Split.of(
            table, labels, calibration_share, random_state, group, time, impute, sampled, items
        )
        held_out = table.iloc[split.held_out].drop(columns=no_inputs)
        training, encoder = table.iloc[split.train], TableEncoder(photo_folder=folder)
        points = encoder.fit_transform(training, impute, split.ids, no_inputs, items)
        features, unseen = encoder.transform_with_unseen(held_out)

        make = BaCOUnClassifier.quick if quick else BaCOUnClassifier
        classifier = classifier or make(random_state=random_state, verbose=verbose)
        classifier.categorical_features = encoder.categorical_features_ or None
        if sampled is None:
            classifier.fit(points, labels[split.train], checkpoint=checkpoint)
        else:
            encoding = encoder.without_row_hashes()  # which are not sent to other processes
            sample = points, labels[split.train]
            sampled.fit_classifier(classifier, encoding, *sample, checkpoint=checkpoint)

        classes = np.searchsorted(classifier.classes_, labels)
        scored = ScoredRows.of(classifier, held_out, features, unseen)
        scored = replace(scored, truth=classes[split.held_out])
        rule, error_bound = scored.calibrate(
            max_error, false_alarm=false_alarm, per_class=per_class, confidence=confidence
        )
        facts = describe(frame, labels, split, encoder, scored)
        facts |= {"error_bound": error_bound, "seed": random_state}
        facts |= {"impute": impute, "quick": quick, "data_digest": table_checksum(frame)}
        facts |= {} if sampled is None else sampled.facts
        rows = np.concatenate([points, features[~unseen]])
        embedded = encoder.texts_and_photos(training, points)
        items_kept = KnownItems.of_columns(embedded, labels[split.train], random_state)
        sizes = encoder.without_gaps(classifier.n_categories_)
        profile, share = encoder.profile_, len(split.train) / facts["training_rows"]
        encoder.profile_ = replace(profile, hashed=profile.hashed * share)
        return cls(
            classifier=classifier,
            encoder=encoder,
            rule=rule,
            target=target,
            facts=facts,
            made=made_now(),
            calibration=scored.calibration(),
            neighborhood=Neighborhood.fit(rows, sizes, random_state),
            replacements=Replacements.fit(encoder, points, classes[split.train], items_kept),
            known=items_kept,
        )

    @property
    def classes(self) -> np.ndarray:
        """The labels (K,), in the order of the probabilities."""
        return self.classifier.classes_

    @property
    def columns(self) -> list[Column]:
        """The columns that the model uses, in the order of training."""
        return self.encoder.columns_

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that the model uses."""
        return [column.name for column in self.columns]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features (D,) that the columns are encoded as."""
        return self.encoder.feature_names_

    @property
    def dropped_columns(self) -> Mapping[str, str]:
        """Columns that training had and the model does not use, and why."""
        return self.encoder.dropped_

    @property
    def health(self) -> Any:
        """Diagnostics of the posterior draws; see `BaCOUnClassifier.health_`."""
        return self.classifier.health_

    @property
    def profile(self) -> TableProfile:
        """What the columns of the training rows look like, to check new tables."""
        return self.encoder.profile_

    @property
    def added_columns(self) -> list[str]:
        """Names of the columns that `score` returns, `because` last."""
        return [*ScoredRows.column_names(self.classes), "because"]

    def summary(self) -> dict[str, str]:
        """What was fitted, how well it does and what it promises: lines of text by their titles."""
        return summarize(self.facts, self.health, self.rule, len(self.columns))

    def refuse_taken(self, names: Iterable[str], where: str, because: bool = True) -> None:
        """Raise a ValueError if `names`, the columns of `where`, include one that is added."""
        there, added = set(names), self.added_columns if because else self.added_columns[:-1]
        taken = [name for name in added if name in there]
        if taken:
            raise ValueError(
                f"{where} already has columns that would be added: {listed(taken)}. Rename or "
                "drop them first."
            )

    def score(self, frame: Any, because: bool = False) -> Any:
        """Predictions, uncertainties and decisions for each row of `frame`, with the same index.

        Parameters
        ----------
        frame : DataFrame
            A table with the columns of training, in any order; of pandas, polars or Arrow.
        because : bool
            Add the column `because`, which says in words why a row is deferred; see `explain`. That
            takes a few milliseconds for each deferred row.

        Returns
        -------
        DataFrame, or table of the same library as `frame`
            `prediction`; `p_<class>` for each class; `total`, `aleatoric`, `epistemic`, in nats;
            `ood_score`; `ood_probability`; `rows_like_this`; `log_density`; `decision`, "accept" or
            "defer"; `reason`, "" or "unfamiliar" or "ambiguous"; `because`, if asked for. A row is
            unfamiliar, whatever its `ood_score`, if it has an unseen category, a gap where training
            had none, more gaps than any training row, another value in a column that was constant,
            or if it is farther from all known rows than these are from each other.
        """
        (scored,) = self.score_rows([as_pandas(frame)])
        return like(frame, self.with_because(scored) if because else scored.table)

    def score_rows(self, frames: Sequence[pd.DataFrame]) -> list[ScoredRows]:
        """Score several tables in one pass, which is faster than one after the other."""
        encoded = [self.encoder.transform_with_unseen(frame) for frame in frames]
        features, unseen = (np.concatenate(parts) for parts in zip(*encoded, strict=True))
        empty = pd.DataFrame(index=range(len(features)))
        scored = ScoredRows.of(self.classifier, empty, features, unseen, self.neighborhood)
        scored, ends = scored.decided(self.rule), np.cumsum([len(frame) for frame in frames])
        parts = zip(np.split(np.arange(len(features)), ends[:-1]), frames, strict=True)
        return [replace(scored.take(rows), frame=frame) for rows, frame in parts]

    def explain(self, frame: Any) -> list[Explanation]:
        """Why each row of `frame` is deferred.

        Of an unfamiliar row, the columns that make it so: the most surprising first, each with its
        value and with what was expected given the rest of the row. Of an ambiguous row, the two
        classes and the columns between them. Of an accepted row, nothing.
        """
        (scored,) = self.score_rows([as_pandas(frame)])
        return self.explain_rows(scored)

    def explain_rows(self, scored: ScoredRows) -> list[Explanation]:
        """The same for rows of `score_rows`, which are not scored again."""
        return self.explainer.explain(scored)

    def with_because(self, scored: ScoredRows) -> pd.DataFrame:
        """The table of scored rows, with the column `because`."""
        return scored.table.assign(because=list(map(str, self.explain_rows(scored))))

    def check(self, frame: pd.DataFrame) -> list[Finding]:
        """What is different about a table, compared with the training rows; see `check_table`."""
        return check_table(self.profile, self.located(frame), self.target)

    def coordinates(self, scored: ScoredRows) -> np.ndarray:
        """Scored rows as points (N, E): standardized numbers and one-hot encoded categories."""
        return self.neighborhood.coordinates(scored.features)

    def typical_row(self) -> dict[str, Any]:
        """A row in the middle of the densest known ones, written as in a table."""
        return typical_row(self.classifier, self.encoder, self.neighborhood, self.known)

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with numbers and booleans parsed from the text of a CSV; dates as they are."""
        return self.encoder.typed(frame)

    @property
    def explainer(self) -> Explainer:
        """Explains rows by the parts of this model."""
        fitted = self.classifier, self.encoder, self.replacements
        return Explainer(*fitted, self.neighborhood, self.rule, self.known)

    def nearest(self, scored: ScoredRows) -> list[tuple[Nearest, ...]]:
        """The training texts and photos that are nearest to those of each scored row."""
        return self.explainer.nearest(scored)

    def located(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with complete paths of photos."""
        return self.encoder.located(frame)

    def with_photos_in(self, folder: str | os.PathLike[str] | None) -> Self:
        """The same model, for which paths of photos are relative to `folder`.

        None: paths are refused, so that nobody can make a service read files; data URIs are not.
        """
        where = None if folder is None else os.path.abspath(folder)
        return replace(self, encoder=TableEncoder(self.profile, where))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model atomically to the folder `path`, as JSON and safetensors.

        The folder must not exist yet; with `overwrite`, a saved model there is replaced.
        """
        content = {
            "classifier": pack_classifier(self.classifier),
            "encoder": to_state(self.encoder.profile_),
            "rule": self.rule.to_dict(),
            "target": self.target,
            "facts": dict(self.facts),
            "made": dict(self.made),
            "calibration": to_state(self.calibration),
            "neighborhood": to_state(self.neighborhood),
            "replacements": to_state(self.replacements),
            "known": to_state(self.known),
        }
        write_folder(content, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoders: Iterable[HasSpec] = ()) -> Self:
        """Read the model that `save` wrote to the folder `path`.

        `encoders` of texts and photos are needed only if they are of your own, or download weights.
        """
        for each in encoders:
            remember(each)
        content = read_folder(path)
        if "encoder" not in content:
            raise ValueError(
                f"'{path}' must be a model of a table; it is a classifier without the table's "
                "columns. Fit one with bacoun fit, or load this one with BaCOUnClassifier.load."
            )
        with refuse_incomplete(path):
            return cls(
                classifier=unpack_classifier(BaCOUnClassifier, content["classifier"]),
                encoder=TableEncoder(from_state(TableProfile, content["encoder"])),
                rule=DeferralRule.from_dict(content["rule"]),
                target=content["target"],
                facts=content["facts"],
                made=content["made"],
                calibration={name: each.numpy() for name, each in content["calibration"].items()},
                neighborhood=from_state(Neighborhood, content["neighborhood"]),
                replacements=from_state(Replacements, content["replacements"]),
                known=from_state(dict[str, KnownItems], content["known"]),
            )
