"""Labels and features too large for memory: cut into files, worked on piece by piece, here or by Dask.

`write_shards` cuts a label table by task, `open_engine` maps work over the shards and adds up;
`write_features` lays features down group by group, `FeaturePasses` goes over them in blocks.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.sharding.engine import load_fit, open_engine, open_mapper, save_fit, stored
    from flows.sharding.features import (
        FeatureFolder,
        FeaturePasses,
        list_features,
        open_features,
        write_features,
    )
    from flows.sharding.label_codes import open_tasks
    from flows.sharding.shards import (
        SHARDS,
        Mapper,
        ShardFolder,
        count_rows,
        group_of_shard,
        load_shard,
        names_alone,
        open_shards,
        refuse_hollow_shards,
        write_gold,
        write_groups,
        write_shards,
    )

__all__ = [
    "SHARDS", "FeatureFolder", "FeaturePasses", "Mapper", "ShardFolder", "count_rows", "group_of_shard",
    "list_features", "load_fit", "load_shard", "names_alone", "open_engine", "open_features",
    "open_mapper", "open_shards", "open_tasks", "refuse_hollow_shards", "save_fit", "stored",
    "write_features", "write_gold", "write_groups", "write_shards",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
