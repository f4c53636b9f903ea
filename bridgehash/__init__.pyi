from ._core.errors import (
    BridgehashError as BridgehashError,
)
from ._core.errors import (
    BridgeWarning as BridgeWarning,
)
from ._core.errors import (
    ClassesWarning as ClassesWarning,
)
from ._core.errors import (
    ClusterError as ClusterError,
)
from ._core.errors import (
    CounterpartWarning as CounterpartWarning,
)
from ._core.errors import (
    DecoderWarning as DecoderWarning,
)
from ._core.errors import (
    EngineError as EngineError,
)
from ._core.errors import (
    FeatureSpaceWarning as FeatureSpaceWarning,
)
from ._core.errors import (
    FewLabelsWarning as FewLabelsWarning,
)
from ._core.errors import (
    IdExistsError as IdExistsError,
)
from ._core.errors import (
    InputError as InputError,
)
from ._core.errors import (
    JournalError as JournalError,
)
from ._core.errors import (
    LostChangesWarning as LostChangesWarning,
)
from ._core.errors import (
    MissingDataError as MissingDataError,
)
from ._core.errors import (
    ModelFileError as ModelFileError,
)
from ._core.errors import (
    PairsWarning as PairsWarning,
)
from ._core.errors import (
    SuiteError as SuiteError,
)
from .ath import (
    ATH as ATH,
)
from .ath import (
    AdaptiveBipartite as AdaptiveBipartite,
)
from .ath import (
    AuthorsBipartite as AuthorsBipartite,
)
from .ath import (
    BalancedCodes as BalancedCodes,
)
from .ath import (
    ClassCodes as ClassCodes,
)
from .ath import (
    GivenBipartite as GivenBipartite,
)
from .ath import (
    GivenStart as GivenStart,
)
from .ath import (
    Known as Known,
)
from .ath import (
    LabelBipartite as LabelBipartite,
)
from .ath import (
    LabelStart as LabelStart,
)
from .ath import (
    PairBipartite as PairBipartite,
)
from .ath import (
    PairCodes as PairCodes,
)
from .ath import (
    PairStart as PairStart,
)
from .ath import (
    PartnerSearch as PartnerSearch,
)
from .ath import (
    PCAStart as PCAStart,
)
from .ath import (
    Propagation as Propagation,
)
from .ath import (
    Start as Start,
)
from .ath import (
    StartContext as StartContext,
)
from .ath import (
    StructuralStart as StructuralStart,
)
from .baselines import (
    CCAITQ as CCAITQ,
)
from .baselines import (
    CMFH as CMFH,
)
from .baselines import (
    DPLM as DPLM,
)
from .baselines import (
    FSDH as FSDH,
)
from .baselines import (
    FSH as FSH,
)
from .baselines import (
    GTH as GTH,
)
from .baselines import (
    ITQ as ITQ,
)
from .baselines import (
    KSH as KSH,
)
from .baselines import (
    LSH as LSH,
)
from .baselines import (
    PCAH as PCAH,
)
from .baselines import (
    PSCA as PSCA,
)
from .baselines import (
    PWCF as PWCF,
)
from .baselines import (
    SCDH as SCDH,
)
from .baselines import (
    SCM as SCM,
)
from .baselines import (
    SCRATCH as SCRATCH,
)
from .baselines import (
    SDH as SDH,
)
from .baselines import (
    SH as SH,
)
from .baselines import (
    SHSR as SHSR,
)
from .baselines import (
    SP as SP,
)
from .baselines import (
    AnchorGraphMap as AnchorGraphMap,
)
from .baselines import (
    ITQPlus as ITQPlus,
)
from .baselines import (
    Procrustes as Procrustes,
)
from .baselines import (
    PrototypeBank as PrototypeBank,
)
from .baselines import (
    RidgeMap as RidgeMap,
)
from .baselines import (
    Shared as Shared,
)
from .baselines import (
    SpectralModes as SpectralModes,
)
from .index import HammingIndex as HammingIndex
from .index import IndexStore as IndexStore
from .metrics import (
    evaluate as evaluate,
)
from .metrics import (
    foscttm as foscttm,
)
from .metrics import (
    label_transfer_accuracy as label_transfer_accuracy,
)
from .metrics import (
    ndcg_at as ndcg_at,
)
from .metrics import (
    recall_of_neighbors as recall_of_neighbors,
)
from .metrics import (
    rejection_auroc as rejection_auroc,
)
from .models.bridge_report import (
    BridgeReport as BridgeReport,
)
from .models.bridge_report import (
    bridge_report as bridge_report,
)
from .models.decoder import (
    CodeDecoder as CodeDecoder,
)
from .models.encoder import (
    LinearEncoder as LinearEncoder,
)
from .models.feature_maps import (
    AnchorKernel as AnchorKernel,
)
from .models.feature_maps import (
    PrincipalMap as PrincipalMap,
)
from .models.feature_maps import (
    RowsAndKernel as RowsAndKernel,
)
from .models.feature_maps import (
    UnitRows as UnitRows,
)
from .models.persistence import (
    load as load,
)
from .models.persistence import (
    save as save,
)
from .models.rejector import (
    Rejector as Rejector,
)
from .models.training import (
    Domains as Domains,
)
from .models.training import (
    TrainingData as TrainingData,
)
from .neighbors import (
    FactoredGraph as FactoredGraph,
)
from .neighbors import (
    Graph as Graph,
)
from .neighbors import (
    KNNGraph as KNNGraph,
)
from .neighbors import (
    LabelGraph as LabelGraph,
)
from .neighbors import (
    NoGraph as NoGraph,
)
from .neighbors import (
    SparseGraph as SparseGraph,
)
from .streaming import as_blocks as as_blocks
from .tuning import (
    TuneResult as TuneResult,
)
from .tuning import (
    WithSource as WithSource,
)
from .tuning import (
    tune as tune,
)

__version__: str
