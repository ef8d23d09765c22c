package clickhouse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	chproto "github.com/ClickHouse/ch-go/proto"
	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// translate re-encodes Native blocks of revision 0, which the library writes, for a client of the given protocol
// revision: there a block begins with its block info, and each column has a flag for custom serialization.
func translate(blocks []byte, revision uint64) ([]byte, error) {
	if revision == 0 {
		return blocks, nil
	}
	revision = min(revision, driver.ClientTCPProtocolVersion)
	source := bytes.NewReader(blocks)
	reader := chproto.NewReader(source)
	out := &chproto.Buffer{Buf: make([]byte, 0, len(blocks)+len(blocks)/64+256)}
	for {
		block := proto.Block{ServerContext: &column.ServerContext{Timezone: time.UTC}}
		err := block.Decode(reader, 0)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Buf, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode native block: %w", err)
		}
		if err := encode(out, &block, revision); err != nil {
			return nil, fmt.Errorf("encode native block: %w", err)
		}
	}
}

// encode writes a block. In a block without rows a column is only its name and type (NativeWriter.cpp); Block.Encode
// would add state prefixes that clients do not expect.
func encode(out *chproto.Buffer, block *proto.Block, revision uint64) error {
	if block.Rows() > 0 {
		return block.Encode(out, revision)
	}
	if err := block.EncodeHeader(out, revision); err != nil {
		return err
	}
	for _, c := range block.Columns {
		out.PutString(c.Name())
		out.PutString(string(c.Type()))
		if revision >= proto.DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION {
			out.PutBool(false)
		}
	}
	return nil
}
