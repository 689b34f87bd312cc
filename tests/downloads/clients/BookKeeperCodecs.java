import com.google.protobuf.ExtensionRegistry;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.bookkeeper.bookie.Cookie;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.proto.BookieProtoEncoding;
import org.apache.bookkeeper.proto.BookkeeperProtocol;
import org.apache.bookkeeper.proto.DataFormats;
import org.apache.bookkeeper.proto.DataFormats.LedgerMetadataFormat.DigestType;
import org.apache.bookkeeper.proto.checksum.DigestManager;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;
import org.apache.bookkeeper.util.ByteBufList;

/**
 * The codecs of the original, one question a line: a word, then arguments, bytes as hexadecimal digits ("-": none). The
 * answer is one line, or "refused" and the name of the exception.
 */
public class BookKeeperCodecs {
    private static final HexFormat HEX = HexFormat.of();
    private static final ExtensionRegistry REGISTRY = ExtensionRegistry.newInstance();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "));
            } catch (Exception error) {
                answer = "refused " + error.getClass().getSimpleName();
            }
            System.out.println("> " + answer);
        }
    }

    private static String answer(String[] asked) throws Exception {
        switch (asked[0]) {
            case "pack":
                return packed(asked);
            case "open":
                return opened(asked);
            case "lac":
                return explicitLac(asked);
            case "key":
                return hex(DigestManager.generateMasterKey(bytes(asked[1])));
            case "metadata": {
                LedgerMetadataSerDe codec = new LedgerMetadataSerDe();
                return hex(codec.serialize(codec.parseConfig(bytes(asked[1]), 1L, Optional.empty())));
            }
            case "cookie":
                return hex(Cookie.parseFromBytes(bytes(asked[1])).toString().getBytes("UTF-8"));
            case "info":
                return hex(DataFormats.BookieServiceInfoFormat.parseFrom(bytes(asked[1])).toByteArray());
            case "v2request":
                return fields(new BookieProtoEncoding.RequestEnDeCoderPreV3(REGISTRY).decode(buffer(asked[1])),
                    "getProtocolVersion", "getOpCode", "getLedgerId", "getEntryId", "getFlags", "getMasterKey");
            case "v2answer":
                return fields(new BookieProtoEncoding.ResponseEnDeCoderPreV3(REGISTRY).decode(buffer(asked[1])),
                    "getProtocolVersion", "getOpCode", "getErrorCode", "getLedgerId", "getEntryId");
            case "v3request":
                return hex(BookkeeperProtocol.Request.parseFrom(bytes(asked[1])).toByteArray());
            case "v3answer":
                return hex(BookkeeperProtocol.Response.parseFrom(bytes(asked[1])).toByteArray());
            case "list": {
                long[] entries = Arrays.stream(asked[1].split(",")).mapToLong(Long::parseLong).toArray();
                return hex(new AvailabilityOfEntriesOfLedger(entries).serializeStateOfEntriesOfLedger());
            }
            default:
                throw new IllegalArgumentException(asked[0]);
        }
    }

    private static DigestManager digest(String[] asked) throws Exception {
        return DigestManager.instantiate(Long.parseLong(asked[3]), bytes(asked[2]), DigestType.valueOf(asked[1]),
            ByteBufAllocator.DEFAULT, false);
    }

    /** Digest, password, ledger, entry, LAC, length, payload. */
    private static String packed(String[] asked) throws Exception {
        ByteBufList list = (ByteBufList) digest(asked).computeDigestAndPackageForSending(Long.parseLong(asked[4]),
            Long.parseLong(asked[5]), Long.parseLong(asked[6]), buffer(asked[7]), null, 0);
        return hex(list.toArray());
    }

    /** Digest, password, ledger, entry, envelope. */
    private static String opened(String[] asked) throws Exception {
        ByteBuf data = digest(asked).verifyDigestAndReturnData(Long.parseLong(asked[4]), buffer(asked[5]));
        byte[] payload = new byte[data.readableBytes()];
        data.readBytes(payload);
        return hex(payload);
    }

    /** Digest, password, ledger, LAC, packet: the packet of the original, and the LAC that it reads in ours. */
    private static String explicitLac(String[] asked) throws Exception {
        byte[] packet = digest(asked).computeDigestAndPackageForSendingLac(Long.parseLong(asked[4])).toArray();
        return hex(packet) + " " + digest(asked).verifyDigestAndReturnLac(buffer(asked[5]));
    }

    private static String fields(Object message, String... getters) {
        return Arrays.stream(getters).map(getter -> {
            try {
                Class<?> owner = message.getClass();
                while (true) {
                    try {
                        var method = owner.getDeclaredMethod(getter);
                        method.setAccessible(true);
                        Object value = method.invoke(message);
                        return value instanceof byte[] ? hex((byte[]) value) : value == null ? "-" : value.toString();
                    } catch (NoSuchMethodException error) {
                        owner = owner.getSuperclass();
                    }
                }
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }).collect(Collectors.joining(" "));
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? new byte[0] : HEX.parseHex(text);
    }

    private static ByteBuf buffer(String text) {
        return Unpooled.wrappedBuffer(bytes(text));
    }

    private static String hex(byte[] data) {
        return data.length == 0 ? "-" : HEX.formatHex(data);
    }
}
