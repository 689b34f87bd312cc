import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.common.conf.ConfigurationUtil;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.apache.commons.configuration2.CompositeConfiguration;
import org.apache.commons.configuration2.PropertiesConfiguration;

/**
 * Clients, handles and the shell of BookKeeper, driven by lines of words separated by tabs: one line in, "> " and one
 * line out, either "ok" and values, or "error", the code, and a text. Bytes are hexadecimal, "-" if there are none.
 * What else is printed in between belongs to the command.
 */
public class BookKeeperProgram {
    static final long SECONDS = 60;
    static final Map<String, BookKeeper> clients = new HashMap<>();
    static final Map<String, ClientConfiguration> configurations = new HashMap<>();
    static final Map<String, ReadHandle> handles = new HashMap<>();
    static final Map<String, CompletableFuture<?>> pending = new HashMap<>();

    interface Command {
        Object run(String[] words) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String answer;
            try {
                answer = "ok\t" + run(words[0], Arrays.copyOfRange(words, 1, words.length));
            } catch (Throwable error) {
                answer = "error\t" + described(error);
            }
            System.out.println("> " + answer);
            System.out.flush();
        }
        System.exit(0);
    }

    static String described(Throwable error) {
        while (error instanceof ExecutionException && error.getCause() != null) {
            error = error.getCause();
        }
        int code = error instanceof BKException ? ((BKException) error).getCode() : 0;
        return code + "\t" + error.toString().replace('\n', ' ').replace('\t', ' ');
    }

    static Object run(String name, String[] words) throws Exception {
        switch (name) {
            case "client": return client(words);
            case "create": return create(words);
            case "open": return open(words);
            case "add": return add(words);
            case "add-nowait": return addNoWait(words);
            case "await": return await(words[0]);
            case "read": return read(words);
            case "batch": return batch(words);
            case "read-unconfirmed": return readUnconfirmed(words);
            case "tail": return tail(words);
            case "lac": return lac(words);
            case "force": return force(words);
            case "length": return handles.get(words[0]).getLength();
            case "last": return handles.get(words[0]).getLastAddConfirmed();
            case "closed": return clients.get(words[0]).isClosed(Long.parseLong(words[1]));
            case "close": handles.remove(words[0]).closeAsync().get(SECONDS, TimeUnit.SECONDS); return "";
            case "metadata": return metadata(words);
            case "delete": clients.get(words[0]).deleteLedger(Long.parseLong(words[1])); return "";
            case "entries": return entries(words);
            case "bookies": return bookies(words);
            case "shell": return shell(words);
            case "shut": clients.remove(words[0]).close(); return "";
            default: throw new IllegalArgumentException(name);
        }
    }

    /** client NAME key=value... */
    static Object client(String[] words) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        for (String word : Arrays.copyOfRange(words, 1, words.length)) {
            int at = word.indexOf('=');
            conf.setProperty(word.substring(0, at), word.substring(at + 1));
        }
        configurations.put(words[0], conf);
        clients.put(words[0], new BookKeeper(conf));
        return "";
    }

    static byte[] bytes(String word) {
        return word.equals("-") ? new byte[0] : HexFormat.of().parseHex(word);
    }

    /** create CLIENT HANDLE ensemble write ack digest password [deferred] */
    static Object create(String[] words) throws Exception {
        var builder = clients.get(words[0]).newCreateLedgerOp()
            .withEnsembleSize(Integer.parseInt(words[2]))
            .withWriteQuorumSize(Integer.parseInt(words[3]))
            .withAckQuorumSize(Integer.parseInt(words[4]))
            .withDigestType(DigestType.valueOf(words[5]))
            .withPassword(bytes(words[6]))
            .withCustomMetadata(Map.of("made-by", "java".getBytes()));
        if (words.length > 7) {
            builder = builder.withWriteFlags(WriteFlag.DEFERRED_SYNC);
        }
        WriteHandle handle = builder.execute().get(SECONDS, TimeUnit.SECONDS);
        handles.put(words[1], handle);
        return handle.getId();
    }

    /** open CLIENT HANDLE ledger digest password recover */
    static Object open(String[] words) throws Exception {
        ReadHandle handle = clients.get(words[0]).newOpenLedgerOp()
            .withLedgerId(Long.parseLong(words[2]))
            .withDigestType(DigestType.valueOf(words[3]))
            .withPassword(bytes(words[4]))
            .withRecovery(Boolean.parseBoolean(words[5]))
            .execute().get(SECONDS, TimeUnit.SECONDS);
        handles.put(words[1], handle);
        return handle.getLastAddConfirmed() + "\t" + handle.getLength() + "\t" + handle.isClosed();
    }

    /** Byte i of the payload that is number `number` of its ledger. */
    static byte[] payload(long number, int size) {
        byte[] found = new byte[size];
        for (int i = 0; i < size; i++) {
            found[i] = (byte) (number * 31 + i * 7 + (i >> 8));
        }
        return found;
    }

    static CompletableFuture<List<Long>> append(String[] words) {
        WriteHandle handle = (WriteHandle) handles.get(words[0]);
        long first = Long.parseLong(words[1]);
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        for (int at = 2; at < words.length; at++) {
            adds.add(handle.appendAsync(payload(first + at - 2, Integer.parseInt(words[at]))));
        }
        return CompletableFuture.allOf(adds.toArray(new CompletableFuture[0]))
            .thenApply(nothing -> adds.stream().map(CompletableFuture::join).collect(Collectors.toList()));
    }

    /** add HANDLE number-of-the-first-payload size... */
    static Object add(String[] words) throws Exception {
        return append(words).get(SECONDS, TimeUnit.SECONDS).stream().map(String::valueOf)
            .collect(Collectors.joining("\t"));
    }

    static Object addNoWait(String[] words) {
        pending.put(words[0], append(words));
        return "";
    }

    static Object await(String handle) throws Exception {
        return pending.remove(handle).get(SECONDS, TimeUnit.SECONDS);
    }

    static String shown(long entry, byte[] data) {
        CRC32 crc = new CRC32();
        crc.update(data);
        return entry + ":" + data.length + ":" + crc.getValue();
    }

    static String shown(LedgerEntries found) {
        List<String> texts = new ArrayList<>();
        found.forEach(entry -> texts.add(shown(entry.getEntryId(), entry.getEntryBytes())));
        found.close();
        return String.join("\t", texts);
    }

    /** read HANDLE first last */
    static Object read(String[] words) throws Exception {
        return shown(handles.get(words[0]).readAsync(Long.parseLong(words[1]), Long.parseLong(words[2]))
            .get(SECONDS, TimeUnit.SECONDS));
    }

    static Object readUnconfirmed(String[] words) throws Exception {
        return shown(handles.get(words[0]).readUnconfirmedAsync(Long.parseLong(words[1]), Long.parseLong(words[2]))
            .get(SECONDS, TimeUnit.SECONDS));
    }

    /** batch HANDLE first count bytes */
    static Object batch(String[] words) throws Exception {
        LedgerHandle handle = (LedgerHandle) handles.get(words[0]);
        Enumeration<LedgerEntry> found =
            handle.batchReadEntries(Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]));
        List<String> texts = new ArrayList<>();
        while (found.hasMoreElements()) {
            LedgerEntry entry = found.nextElement();
            texts.add(shown(entry.getEntryId(), entry.getEntry()));
        }
        return String.join("\t", texts);
    }

    /** tail HANDLE entry milliseconds: waits for that entry in the background; `await` gives it. */
    static Object tail(String[] words) {
        pending.put(words[0], handles.get(words[0])
            .readLastAddConfirmedAndEntryAsync(Long.parseLong(words[1]), Long.parseLong(words[2]), false)
            .thenApply(BookKeeperProgram::shownTail));
        return "";
    }

    static String shownTail(LastConfirmedAndEntry found) {
        String entry = found.hasEntry()
            ? shown(found.getEntry().getEntryId(), found.getEntry().getEntryBytes()) : "none";
        String text = found.getLastAddConfirmed() + "\t" + entry;
        found.close();
        return text;
    }

    /** lac HANDLE read|try|explicit */
    static Object lac(String[] words) throws Exception {
        ReadHandle handle = handles.get(words[0]);
        switch (words[1]) {
            case "read": return handle.readLastAddConfirmed();
            case "try": return handle.tryReadLastAddConfirmed();
            default: return ((LedgerHandle) handle).readExplicitLastConfirmed();
        }
    }

    static Object force(String[] words) throws Exception {
        WriteHandle handle = (WriteHandle) handles.get(words[0]);
        handle.force().get(SECONDS, TimeUnit.SECONDS);
        return handle.getLastAddConfirmed();
    }

    /** metadata CLIENT ledger */
    static Object metadata(String[] words) throws Exception {
        var found = clients.get(words[0]).getLedgerManager().readLedgerMetadata(Long.parseLong(words[1]))
            .get(SECONDS, TimeUnit.SECONDS).getValue();
        return found.getState() + "\t" + found.getLastEntryId() + "\t" + found.getLength() + "\t"
            + found.getAllEnsembles();
    }

    static BookKeeperAdmin admin(String client) {
        return new BookKeeperAdmin(clients.get(client), configurations.get(client));
    }

    /** entries CLIENT bookie ledger: which it says that it has. */
    static Object entries(String[] words) throws Exception {
        try (BookKeeperAdmin admin = admin(words[0])) {
            var found = admin.asyncGetListOfEntriesOfLedger(
                BookieId.parse(words[1]), Long.parseLong(words[2]))
                .get(SECONDS, TimeUnit.SECONDS);
            List<String> texts = new ArrayList<>();
            for (long entry = 0; entry < 10_000 && texts.size() < found.getTotalNumOfAvailableEntries(); entry++) {
                if (found.isEntryAvailable(entry)) {
                    texts.add(String.valueOf(entry));
                }
            }
            return String.join("\t", texts);
        }
    }

    /** bookies CLIENT available|read-only|all */
    static Object bookies(String[] words) throws Exception {
        try (BookKeeperAdmin admin = admin(words[0])) {
            var found = words[1].equals("available") ? admin.getAvailableBookies()
                : words[1].equals("read-only") ? admin.getReadOnlyBookies() : admin.getAllBookies();
            return found.stream().map(String::valueOf).sorted().collect(Collectors.joining("\t"));
        }
    }

    /** shell file-of-configuration word... : what the command returned; what it prints goes before the answer. */
    static Object shell(String[] words) throws Exception {
        BookieShell shell = new BookieShell(LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
        PropertiesConfiguration conf = ConfigurationUtil.newConfiguration(c -> c.propertiesBuilder(new File(words[0])));
        CompositeConfiguration all = new CompositeConfiguration();
        all.addConfiguration(conf);
        shell.setConf(all);
        return shell.run(Arrays.copyOfRange(words, 1, words.length));
    }
}
