//! What a program with krafka does with topics, records, groups and transactions. Each line that it prints is the same on
//! every broker.

use std::error::Error;
use std::time::{Duration, Instant};

use krafka::admin::NewTopic;
use krafka::consumer::{AutoOffsetReset, ConsumerRecord, IsolationLevel};
use krafka::producer::TopicPartitionOffset;
use krafka::{Kafka, Record};

const FROM: &str = "krafka-from";
const TO: &str = "krafka-to";
const COUNT: usize = 100;
const PATIENCE: Duration = Duration::from_secs(30);

type Done = Result<(), Box<dyn Error>>;

fn record(topic: &str, number: usize) -> Record {
    let mut made = Record::new(topic, format!("value {number}"));
    made.key = Some(format!("key {number}").into());
    made
}

/// Records in two transactions, the first of which is aborted.
async fn transactions(kafka: &Kafka) -> Done {
    let producer = kafka
        .producer()
        .transaction_timeout(Duration::from_secs(60))
        .delivery_timeout(Duration::from_secs(45))
        .build_transactional(format!("krafka-{}", std::process::id()))
        .await?;
    for commits in [false, true] {
        producer.begin()?;
        for number in 0..COUNT {
            let _ = producer.send(record(FROM, number)).await?;
        }
        if commits {
            producer.commit().await?;
        } else {
            producer.abort().await?;
        }
    }
    producer.close().await?;
    println!("transactions: true");
    Ok(())
}

/// Reads records as a group, and commits its offsets with the copies of the records.
async fn copy(kafka: &Kafka) -> Done {
    let consumer = kafka
        .consumer("krafka")
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .enable_auto_commit(false)
        .build()
        .await?;
    let producer = kafka
        .producer()
        .transaction_timeout(Duration::from_secs(60))
        .delivery_timeout(Duration::from_secs(45))
        .build_transactional(format!("krafka-copies-{}", std::process::id()))
        .await?;
    consumer.subscribe([FROM]).await?;
    let (mut count, began) = (0, Instant::now());
    while count < 2 * COUNT && began.elapsed() < PATIENCE {
        let records = consumer.poll(Duration::from_millis(500)).await?;
        if records.is_empty() {
            continue;
        }
        producer.begin()?;
        let mut offsets = Vec::new();
        for one in &records {
            let mut copied = Record::new(TO, one.value.clone().unwrap_or_default());
            copied.key = one.key.clone();
            let _ = producer.send(copied).await?;
            offsets.push(TopicPartitionOffset::new(&*one.topic, one.partition, one.offset + 1));
        }
        let group = consumer.group_metadata().await.ok_or("it is no member")?;
        producer.send_offsets(&offsets, &group).await?;
        producer.commit().await?;
        count += records.len();
    }
    producer.close().await?;
    consumer.close().await?;
    println!("copied: {count}");
    Ok(())
}

/// What a group finds, from the beginning on.
async fn found(kafka: &Kafka, topic: &str, count: usize) -> Result<Vec<ConsumerRecord>, Box<dyn Error>> {
    let consumer = kafka
        .consumer(format!("krafka-finds-{topic}"))
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .build()
        .await?;
    consumer.subscribe([topic]).await?;
    let (mut all, began) = (Vec::new(), Instant::now());
    while all.len() < count && began.elapsed() < PATIENCE {
        all.extend(consumer.poll(Duration::from_millis(500)).await?);
    }
    consumer.close().await?;
    Ok(all)
}

#[tokio::main]
async fn main() -> Done {
    let address = std::env::args().nth(1).ok_or("the address of a broker")?;
    let kafka = Kafka::builder(address).client_id("krafka").connect().await?;
    let admin = kafka.admin();
    let topics = [NewTopic::new(FROM, 2, 1)?, NewTopic::new(TO, 2, 1)?];
    let created = admin.create_topics(topics, Default::default()).await?;
    println!("created: {}", created.into_iter().filter(|(_, result)| result.is_ok()).count());
    for (name, result) in admin.create_topics([NewTopic::new(FROM, 1, 1)?], Default::default()).await? {
        println!("again: {name} {}", result.is_ok());
    }
    let producer = kafka.producer().build().await?;
    for number in COUNT..2 * COUNT {
        let _ = producer.send(record(FROM, number)).await?;
    }
    producer.close().await?;
    transactions(&kafka).await?;
    copy(&kafka).await?;
    let mut values: Vec<Vec<u8>> = Vec::new();
    for one in found(&kafka, TO, 2 * COUNT).await? {
        values.push(one.value.unwrap_or_default().to_vec());
    }
    let count = values.len();
    values.sort();
    values.dedup();
    println!("found: {count}, different {}", values.len());
    let cluster = admin.describe_cluster(Default::default()).await?;
    println!("brokers: {}", cluster.brokers.len());
    for (_, description) in admin.describe_topics([TO], Default::default()).await? {
        println!("partitions: {}", description?.partitions.len());
    }
    let deleted = admin.delete_topics([FROM, TO], Default::default()).await?;
    println!("deleted: {}", deleted.into_iter().filter(|(_, result)| result.is_ok()).count());
    admin.close().await?;
    Ok(())
}
