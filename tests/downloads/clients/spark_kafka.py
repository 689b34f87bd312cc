"""Spark's source and sink for Kafka: a topic is read as a table, and as a stream that is written to another topic.

python spark_kafka.py CHECKPOINT ADDRESS, with the jars in SPARK_KAFKA_JARS. Each line that it prints is the same on
every broker.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

FROM, TO = "spark-from", "spark-to"
COUNT = 500


def main(checkpoint: str, address: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", os.environ["SPARK_KAFKA_JARS"])
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    servers = {"kafka.bootstrap.servers": address}
    numbers = spark.range(COUNT).select(
        fn.col("id").cast("string").alias("key"),
        fn.concat(fn.lit("value "), fn.col("id")).alias("value"),
        fn.array(fn.struct(fn.lit("n").alias("key"), fn.col("id").cast("string").cast("binary").alias("value"))).alias(
            "headers"
        ),
    )
    numbers.write.format("kafka").options(**servers, topic=FROM, includeHeaders="true").save()
    table = spark.read.format("kafka").options(**servers, subscribe=FROM, includeHeaders="true").load()
    row = table.orderBy("partition", "offset").first()
    print(
        "table:", table.count(), table.select("partition").distinct().count(), row["offset"], row["headers"][0]["key"]
    )
    part = {"startingOffsets": f'{{"{FROM}": {{"0": 5}}}}', "endingOffsets": f'{{"{FROM}": {{"0": 25}}}}'}
    print("part:", spark.read.format("kafka").options(**servers, assign=f'{{"{FROM}": [0]}}', **part).load().count())
    stream = (
        spark.readStream.format("kafka")
        .options(**servers, subscribePattern="spark-fro.*", startingOffsets="earliest", maxOffsetsPerTrigger="200")
        .load()
        .select("key", fn.upper(fn.col("value").cast("string")).alias("value"))
    )
    # The second one has nothing left to read.
    for name in ("first", "second"):
        query = (
            stream.writeStream.format("kafka")
            .options(**servers, topic=TO, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        print(f"{name}:", sum(each["numInputRows"] for each in query.recentProgress))
    copied = spark.read.format("kafka").options(**servers, subscribe=TO).load().select(fn.col("value").cast("string"))
    print("copied:", copied.count(), copied.distinct().count(), copied.filter("value like 'VALUE %'").count())
    spark.stop()


main(*sys.argv[1:])
